// Package hwheel is a lock-free timing wheel: timers by the million, in batches.
//
// The caller arms a timer with a cookie, any integer, and finds it again in an
// Event of the slice given to Poll. The library keeps nothing of Go's.
//
// Errors are of type Error, in the library's words; errors.Is(err, syscall.ESTALE)
// tells them apart: ESTALE the timer no longer exists, ENOSPC too many timers,
// EBUSY another goroutine drives, EINVAL a bad argument, a negative duration or a
// closed wheel, ESHUTDOWN drained or a forked child, ENOMEM no memory.
//
// Any goroutine may arm and cancel, without a lock. One at a time calls Poll,
// Advance, Drain or Run; another gets EBUSY. No other goroutine may use the wheel
// during Close.
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

// Clock is the clock of a wheel.
type Clock uint32

const (
	Monotonic Clock = C.HWHEEL_CLOCK_MONOTONIC
	Boottime  Clock = C.HWHEEL_CLOCK_BOOTTIME // counts the time of a suspend, too
	Realtime  Clock = C.HWHEEL_CLOCK_REALTIME // follows the wall clock
	Manual    Clock = C.HWHEEL_CLOCK_MANUAL   // moved by Advance
)

// Never is a delay that never comes.
const Never time.Duration = math.MaxInt64

// Options say how to make a wheel. Zero is the library's default: ticks of a
// millisecond, four levels of 256 slots.
type Options struct {
	Clock     Clock
	Tick      time.Duration
	Levels    uint32
	Slots     uint32
	MaxTimers uint32
	StartNs   uint64 // of a manual clock
}

// Event is a timer that has fired, or that was drained or listed.
type Event struct {
	Timer      Timer // stale already, if the timer freed itself
	Cookie     uint64
	DeadlineNs uint64
	Missed     uint32 // number of periods left out
	Flags      uint32
}

// Flags of an event.
const (
	Drained uint32 = C.HWHEEL_EVENT_DRAINED // Drain has handed it back
	Listed  uint32 = C.HWHEEL_EVENT_LISTED  // List shows it
)

// C writes into a slice of events directly: these do not compile if the layouts
// differ.
const (
	_ = -uint(unsafe.Sizeof(Event{}) ^ C.sizeof_struct_hwheel_event)
	_ = -uint(unsafe.Offsetof(Event{}.Cookie) ^ unsafe.Offsetof(C.struct_hwheel_event{}.cookie))
	_ = -uint(unsafe.Offsetof(Event{}.DeadlineNs) ^ unsafe.Offsetof(C.struct_hwheel_event{}.deadline_ns))
	_ = -uint(unsafe.Offsetof(Event{}.Missed) ^ unsafe.Offsetof(C.struct_hwheel_event{}.missed))
	_ = -uint(unsafe.Offsetof(Event{}.Flags) ^ unsafe.Offsetof(C.struct_hwheel_event{}.flags))
)

// Stats are the counts of a wheel; exact while no goroutine uses it.
type Stats struct {
	Live      uint64 // timers that exist
	Fired     uint64
	Missed    uint64 // periods left out
	Unclaimed uint64 // timers that came due in a call without room for events
	Sweeps    uint64 // moves of the wheel's hand
	Wakeups   uint64 // of the tick thread
	Kicks     uint64 // arms that woke the driver
	Pushes    uint64 // entries put into buckets
	Repeats   uint64 // pushes that were repeated
	SlabBytes uint64 // memory of timers
	Armed     uint64 // arms of timers that were not pending
	Rearmed   uint64 // arms that moved a pending timer
	Quiet     uint64 // those that put no entry into a bucket
	Cancelled uint64
	Drained   uint64 // timers that Drain has handed back
	Pending   uint64 // timers that are pending now
	Entries   uint64 // entries in buckets now
	Dead      uint64 // those that no timer needs any more
	Queued    uint64 // callbacks that wait for a worker
	Dropped   uint64 // callbacks for which the queue had no room
	// Number of timers by lateness: [0] for none, [i] for 2^(i-1) ns to below 2^i ns.
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
	_, err := result(C.hwheel_create(&o, &w.c))
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Close frees the wheel; pending timers do not fire. The second call does nothing.
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

// NextExpiry is the time at which to drive the wheel next, and whether a timer is
// pending at all. The time is never later than the next timer.
func (w *Wheel) NextExpiry() (timeNs uint64, pending bool, err error) {
	var deadline C.uint64_t
	n, err := result(C.hwheel_next_expiry(w.c, &deadline))
	return uint64(deadline), n == 1, err
}

// Stats returns the counts of the wheel.
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

// Version is the version of the library that the program runs with.
func Version() string {
	return C.GoString(C.hwheel_version_string())
}

// nanoseconds gives the library a negative duration as it is, which it refuses.
func nanoseconds(d time.Duration) C.uint64_t {
	switch {
	case d == Never:
		return C.HWHEEL_NEVER
	case d < 0:
		return 1 << 63
	}
	return C.uint64_t(d)
}

// Error is an error of the library. It is a syscall.Errno in other words.
type Error syscall.Errno

// Error says what it means for a wheel.
func (e Error) Error() string {
	return "hwheel: " + C.GoString(C.hwheel_strerror(-C.int(e)))
}

// Unwrap is for errors.Is and errors.As.
func (e Error) Unwrap() error {
	return syscall.Errno(e)
}

func result(n C.int) (int, error) {
	if n < 0 {
		return 0, Error(-n)
	}
	return int(n), nil
}
