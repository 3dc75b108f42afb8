package hwheel

/*
#include <hwheel.h>
*/
import "C"

import (
	"math"
	"os"
	"sync/atomic"
	"unsafe"
)

// Close and the calls of other goroutines may meet. So each call enters the wheel and
// leaves it; Close shuts the entrances, and whoever is the last to leave frees the
// wheel. There are several entrances, so that goroutines on different processors do
// not write to one cache line.

const (
	entrances = 8
	shut      = math.MinInt64 // added to the number of calls inside: no more come in
	passed    = shut / 2      // shut, and counted by Wheel.leave
)

type entrance struct {
	inside atomic.Int64
	_      [56]byte
}

// ErrClosed is the error of every call of a wheel that is closed, or that New has not
// made, such as a copy. errors.Is(err, os.ErrClosed) is true, too.
var ErrClosed error = closed{}

type closed struct{}

func (closed) Error() string { return "hwheel: the wheel is closed" }
func (closed) Unwrap() error { return os.ErrClosed }

// made says whether New has made the wheel. Wheels of Go's heap do not move.
func (w *Wheel) made() bool {
	return w != nil && w.self == uintptr(unsafe.Pointer(w))
}

// enter returns the wheel of C, or nil if it is closed. Each caller that gets the wheel
// leaves by the same entrance; until then the wheel exists.
func (w *Wheel) enter() (*C.struct_hwheel, *entrance) {
	if !w.made() {
		return nil, nil
	}
	// The stacks of two goroutines differ: so they choose.
	var here byte
	e := &w.entrances[uintptr(unsafe.Pointer(&here))>>12%entrances]
	if e.inside.Add(1) < 0 {
		w.leave(e)
		return nil, nil
	}
	return w.c, e
}

func (w *Wheel) leave(e *entrance) {
	if e.inside.Add(-1) == shut {
		w.pass(e)
	}
}

// pass counts an entrance that is shut and empty, once. Whoever still tries it finds it
// shut. The last one frees the wheel.
func (w *Wheel) pass(e *entrance) {
	if e.inside.CompareAndSwap(shut, passed) && w.left.Add(-1) == 0 {
		C.hwheel_destroy(w.c)
	}
}

// Close frees the wheel; pending timers do not fire. A Run that sleeps returns
// ErrClosed. Calls that other goroutines have begun come to their end; later ones are
// ErrClosed. A second Close does nothing. The collector closes a wheel that nothing
// refers to.
func (w *Wheel) Close() error {
	if !w.made() || !w.closing.CompareAndSwap(false, true) {
		return nil
	}
	close(w.done)
	for i := range w.entrances {
		e := &w.entrances[i]
		if e.inside.Add(shut) == shut {
			w.pass(e)
		}
	}
	return nil
}
