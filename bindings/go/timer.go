package hwheel

/*
#include <hwheel.h>

// A result and a handle in one value: an address of Go's would move the
// handle to the heap, an allocation for each call.
struct made {
	int result;
	hwheel_timer_t timer;
};

static struct made once(struct hwheel *w, uint64_t ns, uint64_t cookie, uint32_t flags)
{
	struct made m = { 0, 0 };

	m.result = hwheel_once(w, ns, NULL, cookie, flags, &m.timer);
	return m;
}

static struct made every(struct hwheel *w, uint64_t first, uint64_t period, uint64_t slack,
			 uint64_t cookie, uint32_t flags)
{
	struct made m = { 0, 0 };

	m.result = hwheel_every(w, first, period, slack, NULL, cookie, flags, &m.timer);
	return m;
}

static struct made setup(struct hwheel *w, uint64_t cookie)
{
	struct made m = { 0, 0 };

	m.result = hwheel_timer_setup(w, NULL, cookie, &m.timer);
	return m;
}
*/
import "C"

import (
	"syscall"
	"time"
)

// Timer is the handle of a timer. Zero is none; a stale one is an error.
type Timer uint64

// When is when a timer fires: In a duration, Until a time, or At a deadline.
type When struct {
	ns    uint64
	flags uint32
}

// In is a delay. A negative one is ErrNegative in the call that takes it.
func In(delay time.Duration) When {
	return When{uint64(nanoseconds(delay)), 0}
}

// Until is a delay that ends at a time; none if that has passed.
func Until(t time.Time) When {
	if delay := time.Until(t); delay > 0 {
		return In(delay)
	}
	return In(0)
}

// At is a deadline on the wheel's clock, in nanoseconds.
func At(deadlineNs uint64) When {
	return When{deadlineNs, C.HWHEEL_ABS}
}

func (w When) times() (C.uint64_t, C.uint32_t) {
	return C.uint64_t(w.ns), C.uint32_t(w.flags)
}

// Condition says in which case Mod moves a timer.
type Condition uint32

const (
	Always    Condition = 0
	Reduce    Condition = C.HWHEEL_REDUCE     // only to an earlier time
	IfPending Condition = C.HWHEEL_IF_PENDING // only if the timer is pending
)

// Missed says what happens to periods that nobody drove the wheel for.
type Missed uint32

const (
	Skip  Missed = 0                     // count them and keep the rhythm
	Burst Missed = C.HWHEEL_MISSED_BURST // fire each of them
	Delay Missed = C.HWHEEL_MISSED_DELAY // start the next period now
)

// Period says how a timer repeats.
type Period struct {
	Length time.Duration
	Slack  time.Duration // each time may come this much late, to share a wake-up
	Missed Missed
}

// Once arms a timer that fires once and frees itself.
func (w *Wheel) Once(when When, cookie uint64) (Timer, error) {
	c, e := w.enter()
	if c == nil {
		return 0, ErrClosed
	}
	ns, flags := when.times()
	m := C.once(c, ns, C.uint64_t(cookie), flags)
	w.leave(e)
	if m.result < 0 {
		return 0, failure(m.result, ns)
	}
	return Timer(m.timer), nil
}

// Every arms a timer that fires again and again, until Delete.
func (w *Wheel) Every(first When, period Period, cookie uint64) (Timer, error) {
	if period.Missed&C.HWHEEL_ABS != 0 { // which would change what first means
		return 0, Error(syscall.EINVAL)
	}
	c, e := w.enter()
	if c == nil {
		return 0, ErrClosed
	}
	ns, flags := first.times()
	length, slack := nanoseconds(period.Length), nanoseconds(period.Slack)
	m := C.every(c, ns, length, slack, C.uint64_t(cookie), flags|C.uint32_t(period.Missed))
	w.leave(e)
	if m.result < 0 {
		return 0, failure(m.result, ns, length, slack)
	}
	return Timer(m.timer), nil
}

// Setup makes a timer that can be armed again and again, and lives until Free.
func (w *Wheel) Setup(cookie uint64) (Timer, error) {
	c, e := w.enter()
	if c == nil {
		return 0, ErrClosed
	}
	m := C.setup(c, C.uint64_t(cookie))
	w.leave(e)
	if m.result < 0 {
		return 0, failure(m.result)
	}
	return Timer(m.timer), nil
}

// Mod arms a timer, or moves it. True if it was pending.
func (w *Wheel) Mod(t Timer, when When) (bool, error) {
	return w.ModIf(Always, t, when)
}

// ModIf is Mod under a condition.
func (w *Wheel) ModIf(condition Condition, t Timer, when When) (bool, error) {
	if condition&C.HWHEEL_ABS != 0 { // which would change what when means
		return false, Error(syscall.EINVAL)
	}
	c, e := w.enter()
	if c == nil {
		return false, ErrClosed
	}
	ns, flags := when.times()
	n := C.hwheel_timer_mod(c, C.uint64_t(t), ns, flags|C.uint32_t(condition))
	w.leave(e)
	return yes(n, ns)
}

// ModRange is Mod to any time up to slack later, so that timers share wake-ups.
func (w *Wheel) ModRange(t Timer, when When, slack time.Duration) (bool, error) {
	c, e := w.enter()
	if c == nil {
		return false, ErrClosed
	}
	ns, flags := when.times()
	range_ := nanoseconds(slack)
	n := C.hwheel_timer_mod_range(c, C.uint64_t(t), ns, range_, flags)
	w.leave(e)
	return yes(n, ns, range_)
}

// SetPeriod makes a timer periodic, from the next time that it fires; 0 ends that.
func (w *Wheel) SetPeriod(t Timer, period time.Duration) error {
	ns := nanoseconds(period)
	_, err := w.call(func(c *C.struct_hwheel) C.int {
		return C.hwheel_timer_set_period(c, C.uint64_t(t), ns)
	})
	if err == Error(syscall.EINVAL) && period < 0 {
		return ErrNegative
	}
	return err
}

// Delete cancels a timer. True if it was pending and will not fire. False or
// ESTALE: Poll has handed over its event already.
func (w *Wheel) Delete(t Timer) (bool, error) {
	c, e := w.enter()
	if c == nil {
		return false, ErrClosed
	}
	n := C.hwheel_timer_delete(c, C.uint64_t(t))
	w.leave(e)
	return yes(n)
}

// Shutdown is Delete, and arming the timer again is ESHUTDOWN.
func (w *Wheel) Shutdown(t Timer) (bool, error) {
	c, e := w.enter()
	if c == nil {
		return false, ErrClosed
	}
	n := C.hwheel_timer_shutdown(c, C.uint64_t(t))
	w.leave(e)
	return yes(n)
}

// Free is Delete, and frees the timer.
func (w *Wheel) Free(t Timer) (bool, error) {
	c, e := w.enter()
	if c == nil {
		return false, ErrClosed
	}
	n := C.hwheel_timer_free(c, C.uint64_t(t))
	w.leave(e)
	return yes(n)
}

// Pending says whether a timer is pending.
func (w *Wheel) Pending(t Timer) (bool, error) {
	c, e := w.enter()
	if c == nil {
		return false, ErrClosed
	}
	n := C.hwheel_timer_pending(c, C.uint64_t(t))
	w.leave(e)
	return yes(n)
}

// Remaining is the time until a timer fires, and whether it is pending.
func (w *Wheel) Remaining(t Timer) (left time.Duration, pending bool, err error) {
	var ns C.uint64_t
	n, err := w.call(func(c *C.struct_hwheel) C.int {
		return C.hwheel_timer_remaining(c, C.uint64_t(t), &ns)
	})
	if ns > C.uint64_t(Never) {
		return Never, n == 1, err
	}
	return time.Duration(ns), n == 1, err
}

func yes(n C.int, times ...C.uint64_t) (bool, error) {
	if n < 0 {
		return false, failure(n, times...)
	}
	return n == 1, nil
}
