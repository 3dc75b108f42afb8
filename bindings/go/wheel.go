// Package hwheel is a lock-free timing wheel: timers by the million, handed
// over in batches.
//
// A timer is armed with a cookie, an integer of the caller's, and comes due as
// an Event in the slice given to Poll. Nothing of Go's is kept by the library.
//
// Errors are syscall.Errno values, as errors.Is(err, syscall.ESTALE) tells:
// ESTALE no such timer, ENOSPC too many timers, EBUSY another goroutine
// drives, EINVAL a bad argument or a closed wheel, ESHUTDOWN drained or a
// forked child, ENOMEM no memory.
//
// Any goroutine may arm and cancel, without a lock. One at a time calls Poll,
// Advance, Drain or Run; another gets EBUSY. Close is for when no other
// goroutine uses the wheel.
package hwheel

/*
#cgo pkg-config: hwheel
#include <hwheel.h>
*/
import "C"

import (
	"math"
	"syscall"
	"time"
	"unsafe"
)

// Clock is what a wheel counts.
type Clock uint32

const (
	Monotonic Clock = C.HWHEEL_CLOCK_MONOTONIC
	Boottime  Clock = C.HWHEEL_CLOCK_BOOTTIME // counts suspend, too
	Realtime  Clock = C.HWHEEL_CLOCK_REALTIME // follows the wall clock
	Manual    Clock = C.HWHEEL_CLOCK_MANUAL   // moved by Advance
)

// Never is a delay that never comes.
const Never time.Duration = math.MaxInt64

// Options say how a wheel is made. What is zero takes the library's default:
// ticks of a millisecond, four levels of 256 slots.
type Options struct {
	Clock     Clock
	Tick      time.Duration
	Levels    uint32
	Slots     uint32
	MaxTimers uint32
	StartNs   uint64 // of a manual clock
}

// Event is a timer that has come due, or was drained.
type Event struct {
	Timer      Timer // stale already, if the timer was one that frees itself
	Cookie     uint64
	DeadlineNs uint64
	Missed     uint32 // periods left out after this one
	Flags      uint32
}

// Drained is the flag of an event that Drain has handed back.
const Drained uint32 = C.HWHEEL_EVENT_DRAINED

// A slice of events is given to C as it is: these do not compile if the
// layouts differ.
const (
	_ = -uint(unsafe.Sizeof(Event{}) ^ C.sizeof_struct_hwheel_event)
	_ = -uint(unsafe.Offsetof(Event{}.Cookie) ^ unsafe.Offsetof(C.struct_hwheel_event{}.cookie))
	_ = -uint(unsafe.Offsetof(Event{}.DeadlineNs) ^ unsafe.Offsetof(C.struct_hwheel_event{}.deadline_ns))
	_ = -uint(unsafe.Offsetof(Event{}.Missed) ^ unsafe.Offsetof(C.struct_hwheel_event{}.missed))
	_ = -uint(unsafe.Offsetof(Event{}.Flags) ^ unsafe.Offsetof(C.struct_hwheel_event{}.flags))
)

// Stats are what a wheel has done; exact when nobody uses it.
type Stats struct {
	Live      uint64 // timers that exist
	Fired     uint64
	Missed    uint64 // periods left out
	Unclaimed uint64 // came due where nobody took events
	Sweeps    uint64 // how often the hand was moved
	Wakeups   uint64 // of the tick thread
	Kicks     uint64 // arms that woke the driver
	Pushes    uint64 // promises put into buckets
	Repeats   uint64 // pushes made again
	SlabBytes uint64 // memory of timers
	Armed     uint64 // arms of timers that rested
	Rearmed   uint64 // arms that moved a timer
	Quiet     uint64 // of these, without a push
	Cancelled uint64
	Drained   uint64 // handed back by Drain
	Pending   uint64 // timers that are armed now
	Entries   uint64 // promises in buckets now
	Dead      uint64 // of these, of no use any more
	Queued    uint64 // callbacks waiting for a worker
	Dropped   uint64 // callbacks for which there was no room
	// How many timers fired how late: [0] not at all, [i] from 2^(i-1) ns to
	// below 2^i ns.
	Lateness [40]uint64
}

// Wheel is a timing wheel, made by New.
type Wheel struct {
	c *C.struct_hwheel
}

// New makes a wheel.
func New(options Options) (*Wheel, error) {
	var o C.struct_hwheel_options
	o.size = C.sizeof_struct_hwheel_options
	o.clock = C.uint32_t(options.Clock)
	o.tick_ns = nanoseconds(options.Tick)
	o.levels = C.uint32_t(options.Levels)
	o.slots = C.uint32_t(options.Slots)
	o.max_timers = C.uint32_t(options.MaxTimers)
	o.start_ns = C.uint64_t(options.StartNs)
	w := new(Wheel)
	_, err := result(C.hwheel_create(&o, 0, &w.c))
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Close frees the wheel; what is armed does not fire. The second time it does
// nothing.
func (w *Wheel) Close() error {
	_, err := result(C.hwheel_destroy(w.c))
	if err == nil {
		w.c = nil
	}
	return err
}

// Now is the time on the wheel's clock in nanoseconds.
func (w *Wheel) Now() (uint64, error) {
	var now C.uint64_t
	_, err := result(C.hwheel_now(w.c, &now))
	return uint64(now), err
}

// NextExpiry says when the wheel wants to be driven next, and whether anything
// is armed at all. Never later than the truth.
func (w *Wheel) NextExpiry() (deadlineNs uint64, armed bool, err error) {
	var deadline C.uint64_t
	n, err := result(C.hwheel_next_expiry(w.c, &deadline))
	return uint64(deadline), n == 1, err
}

// Stats returns what the wheel has done so far.
func (w *Wheel) Stats() (Stats, error) {
	var s C.struct_hwheel_stats
	s.size = C.sizeof_struct_hwheel_stats
	_, err := result(C.hwheel_get_stats(w.c, &s))
	stats := Stats{
		Live:      uint64(s.live),
		Fired:     uint64(s.fired),
		Missed:    uint64(s.missed),
		Unclaimed: uint64(s.unclaimed),
		Sweeps:    uint64(s.sweeps),
		Wakeups:   uint64(s.wakeups),
		Kicks:     uint64(s.kicks),
		Pushes:    uint64(s.pushes),
		Repeats:   uint64(s.repeats),
		SlabBytes: uint64(s.slab_bytes),
		Armed:     uint64(s.armed),
		Rearmed:   uint64(s.rearmed),
		Quiet:     uint64(s.quiet),
		Cancelled: uint64(s.cancelled),
		Drained:   uint64(s.drained),
		Pending:   uint64(s.pending),
		Entries:   uint64(s.entries),
		Dead:      uint64(s.dead),
		Queued:    uint64(s.queued),
		Dropped:   uint64(s.dropped),
	}
	for i, n := range s.lateness {
		stats.Lateness[i] = uint64(n)
	}
	return stats, err
}

// Version is that of the library that is linked.
func Version() string {
	return C.GoString(C.hwheel_version_string())
}

func nanoseconds(d time.Duration) C.uint64_t {
	switch {
	case d == Never:
		return C.HWHEEL_NEVER
	case d < 0:
		return 0
	}
	return C.uint64_t(d)
}

func result(n C.int) (int, error) {
	if n < 0 {
		return 0, syscall.Errno(-n)
	}
	return int(n), nil
}
