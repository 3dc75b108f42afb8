package hwheel

/*
#include <hwheel.h>

// A result and a handle in one value: an address of Go's would move the
// handle to the heap, an allocation for each call.
struct made {
	int result;
	hwheel_timer_t timer;
};

static struct made after(struct hwheel *w, uint64_t ns, uint64_t cookie)
{
	struct made m = { 0, 0 };

	m.result = hwheel_after(w, ns, NULL, cookie, 0, &m.timer);
	return m;
}

static struct made at(struct hwheel *w, uint64_t ns, uint64_t cookie)
{
	struct made m = { 0, 0 };

	m.result = hwheel_at(w, ns, NULL, cookie, 0, &m.timer);
	return m;
}

static struct made every(struct hwheel *w, uint64_t first, uint64_t period,
			 uint64_t cookie, uint32_t flags)
{
	struct made m = { 0, 0 };

	m.result = hwheel_every(w, first, period, NULL, cookie, flags, &m.timer);
	return m;
}

static struct made setup(struct hwheel *w, uint64_t cookie)
{
	struct made m = { 0, 0 };

	m.result = hwheel_setup(w, NULL, cookie, 0, &m.timer);
	return m;
}
*/
import "C"

import "time"

// Timer is the name of a timer. Zero is none; a stale one is an error.
type Timer uint64

// Missed says what to do with periods that have passed as well.
type Missed uint32

const (
	Skip  Missed = 0                     // leave them out, count them, keep the rhythm
	Burst Missed = C.HWHEEL_MISSED_BURST // fire each
	Delay Missed = C.HWHEEL_MISSED_DELAY // count the next from now
)

// After arms a timer that fires once and frees itself.
func (w *Wheel) After(delay time.Duration, cookie uint64) (Timer, error) {
	return made(C.after(w.c, nanoseconds(delay), C.uint64_t(cookie)))
}

// At is After with a deadline on the wheel's clock.
func (w *Wheel) At(deadlineNs uint64, cookie uint64) (Timer, error) {
	return made(C.at(w.c, C.uint64_t(deadlineNs), C.uint64_t(cookie)))
}

// Every arms a timer that fires again and again, until it is deleted.
func (w *Wheel) Every(first, period time.Duration, cookie uint64, missed Missed) (Timer, error) {
	return made(C.every(w.c, nanoseconds(first), nanoseconds(period), C.uint64_t(cookie),
		C.uint32_t(missed)))
}

// Setup makes a timer that can be armed again and again, and lives until Free.
func (w *Wheel) Setup(cookie uint64) (Timer, error) {
	return made(C.setup(w.c, C.uint64_t(cookie)))
}

// Mod arms a timer, or moves it. True if it was armed.
func (w *Wheel) Mod(t Timer, delay time.Duration) (bool, error) {
	return yes(C.hwheel_mod(w.c, C.uint64_t(t), nanoseconds(delay), 0))
}

// ModAt is Mod with a deadline on the wheel's clock.
func (w *Wheel) ModAt(t Timer, deadlineNs uint64) (bool, error) {
	return yes(C.hwheel_mod_at(w.c, C.uint64_t(t), C.uint64_t(deadlineNs), 0))
}

// Reduce is Mod, but only to an earlier deadline.
func (w *Wheel) Reduce(t Timer, delay time.Duration) (bool, error) {
	return yes(C.hwheel_reduce(w.c, C.uint64_t(t), nanoseconds(delay), 0))
}

// ModPending is Mod, but only if the timer is armed.
func (w *Wheel) ModPending(t Timer, delay time.Duration) (bool, error) {
	return yes(C.hwheel_mod_pending(w.c, C.uint64_t(t), nanoseconds(delay), 0))
}

// Delete cancels a timer. True if it was armed and will not fire. False or
// ESTALE: its event has been handed over already.
func (w *Wheel) Delete(t Timer) (bool, error) {
	return yes(C.hwheel_delete(w.c, C.uint64_t(t)))
}

// Shutdown is Delete, and arming the timer again is ESHUTDOWN.
func (w *Wheel) Shutdown(t Timer) (bool, error) {
	return yes(C.hwheel_shutdown(w.c, C.uint64_t(t)))
}

// Free is Delete, and the timer is no more.
func (w *Wheel) Free(t Timer) (bool, error) {
	return yes(C.hwheel_free(w.c, C.uint64_t(t)))
}

// Pending says whether a timer is armed.
func (w *Wheel) Pending(t Timer) (bool, error) {
	return yes(C.hwheel_pending(w.c, C.uint64_t(t)))
}

// Remaining is the time to a timer's deadline, and whether it is armed.
func (w *Wheel) Remaining(t Timer) (left time.Duration, armed bool, err error) {
	var ns C.uint64_t
	armed, err = yes(C.hwheel_remaining(w.c, C.uint64_t(t), &ns))
	if ns > C.uint64_t(Never) {
		return Never, armed, err
	}
	return time.Duration(ns), armed, err
}

func made(m C.struct_made) (Timer, error) {
	_, err := result(m.result)
	return Timer(m.timer), err
}

func yes(n C.int) (bool, error) {
	one, err := result(n)
	return one == 1, err
}
