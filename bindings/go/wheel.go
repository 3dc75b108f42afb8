// Package hwheel is a lock-free timing wheel: timers by the million, in batches.
//
// The caller arms a timer with a cookie, any integer, and finds it again in an
// Event of the slice given to Poll. The library keeps nothing of Go's.
//
// Errors are of type Error, in the library's words; errors.Is(err, syscall.ESTALE)
// tells them apart: ESTALE the timer no longer exists, ENOSPC too many timers,
// EBUSY another goroutine drives, EINVAL a bad argument, ESHUTDOWN drained, ENOMEM no
// memory. A negative duration is ErrNegative, a closed wheel ErrClosed.
//
// Any goroutine may make any call at any time, Close included. To arm and to cancel
// takes no lock. One goroutine at a time calls Poll, Advance, Drain or Run; another
// gets EBUSY.
package hwheel

/*
#include <hwheel.h>
*/
import "C"

import (
	"math"
	"runtime"
	"sync/atomic"
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
	Notes     uint64 // notes of threads for the driver
	SlabBytes uint64 // memory of timers
	Armed     uint64 // arms of timers that were not pending
	Rearmed   uint64 // arms that moved a pending timer
	Cancelled uint64
	Drained   uint64 // timers that Drain has handed back
	Pending   uint64 // timers that are pending now
	Entries   uint64 // entries in buckets after the last call that drove the wheel
	Queued    uint64 // callbacks that wait for a worker
	Dropped   uint64 // callbacks for which the queue had no room
	NoteBytes uint64 // memory of notes
	// Number of timers by lateness: [0] for none, [i] for 2^(i-1) ns to below 2^i ns.
	Lateness [40]uint64
}

// Wheel is a timing wheel, made by New.
type Wheel struct {
	c         *C.struct_hwheel
	self      uintptr       // where New has made it: a copy is another wheel
	done      chan struct{} // closed by Close
	closing   atomic.Bool
	left      atomic.Int32 // entrances that are open or not empty
	entrances [entrances]entrance
}

// New makes a wheel.
func New(options Options) (*Wheel, error) {
	if options.Tick < 0 {
		return nil, ErrNegative
	}
	var o C.struct_hwheel_options
	o.size = C.sizeof_struct_hwheel_options
	o.clock = C.uint32_t(options.Clock)
	o.tick_ns = nanoseconds(options.Tick)
	o.levels = C.uint32_t(options.Levels)
	o.slots = C.uint32_t(options.Slots)
	o.max_timers = C.uint32_t(options.MaxTimers)
	o.start_ns = C.uint64_t(options.StartNs)
	w := &Wheel{done: make(chan struct{})}
	w.left.Store(entrances)
	if n := C.hwheel_create(&o, &w.c); n < 0 {
		return nil, failure(n)
	}
	w.self = uintptr(unsafe.Pointer(w))
	runtime.SetFinalizer(w, (*Wheel).Close)
	return w, nil
}

// Now is the time on the wheel's clock in nanoseconds.
func (w *Wheel) Now() (uint64, error) {
	var now C.uint64_t
	_, err := w.call(func(c *C.struct_hwheel) C.int { return C.hwheel_now(c, &now) })
	return uint64(now), err
}

// NextExpiry is the time at which to drive the wheel next, and whether a timer is
// pending at all. The time is never later than the next timer.
func (w *Wheel) NextExpiry() (timeNs uint64, pending bool, err error) {
	var deadline C.uint64_t
	n, err := w.call(func(c *C.struct_hwheel) C.int {
		return C.hwheel_next_expiry(c, &deadline)
	})
	return uint64(deadline), n == 1, err
}

// Stats returns the counts of the wheel.
func (w *Wheel) Stats() (Stats, error) {
	var s C.struct_hwheel_stats
	s.size = C.sizeof_struct_hwheel_stats
	_, err := w.call(func(c *C.struct_hwheel) C.int { return C.hwheel_get_stats(c, &s) })
	if err != nil {
		return Stats{}, err
	}
	stats := Stats{
		Live:      uint64(s.live),
		Fired:     uint64(s.fired),
		Missed:    uint64(s.missed),
		Unclaimed: uint64(s.unclaimed),
		Sweeps:    uint64(s.sweeps),
		Wakeups:   uint64(s.wakeups),
		Kicks:     uint64(s.kicks),
		Notes:     uint64(s.notes),
		SlabBytes: uint64(s.slab_bytes),
		Armed:     uint64(s.armed),
		Rearmed:   uint64(s.rearmed),
		Cancelled: uint64(s.cancelled),
		Drained:   uint64(s.drained),
		Pending:   uint64(s.pending),
		Entries:   uint64(s.entries),
		Queued:    uint64(s.queued),
		Dropped:   uint64(s.dropped),
		NoteBytes: uint64(s.note_bytes),
	}
	for i, n := range s.lateness {
		stats.Lateness[i] = uint64(n)
	}
	return stats, nil
}

// Version is the version of the library that the program runs with.
func Version() string {
	return C.GoString(C.hwheel_version_string())
}

// nanoseconds makes a negative duration a number that the library refuses.
func nanoseconds(d time.Duration) C.uint64_t {
	switch {
	case d == Never:
		return C.HWHEEL_NEVER
	case d < 0:
		return negative
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

// ErrNegative is the error of a negative duration. errors.Is(err, syscall.EINVAL) is
// true, too.
var ErrNegative error = negativeDuration{}

type negativeDuration struct{}

func (negativeDuration) Error() string { return "hwheel: a negative duration" }
func (negativeDuration) Unwrap() error { return syscall.EINVAL }

// negative is what nanoseconds makes of a negative duration.
const negative = 1 << 63

// failure is the error of a negative result. The times say what was not valid.
func failure(n C.int, times ...C.uint64_t) error {
	for _, ns := range times {
		if ns == negative && n == -C.int(syscall.EINVAL) {
			return ErrNegative
		}
	}
	return Error(-n)
}

// call is for calls that need not be fast.
func (w *Wheel) call(f func(*C.struct_hwheel) C.int) (int, error) {
	c, e := w.enter()
	if c == nil {
		return 0, ErrClosed
	}
	defer w.leave(e)
	n := f(c)
	if n < 0 {
		return 0, failure(n)
	}
	return int(n), nil
}
