package hwheel

/*
#include <hwheel.h>
*/
import "C"

import (
	"syscall"
	"unsafe"
)

// Calls for many timers cross into C once for each hundred of them.
const chunk = 128

// ModMany does what Mod does for each timer, with one crossing into C for many. It
// returns the number of timers that were armed or moved. A timer that fails does not
// stop the others; errs, if it is not nil, receives the error of each. All times are In
// and Until, or all are At.
func (w *Wheel) ModMany(timers []Timer, when []When, errs []error) (int, error) {
	if len(when) != len(timers) {
		return 0, Error(syscall.EINVAL)
	}
	var flags uint32
	if len(when) > 0 {
		flags = when[0].flags
	}
	for i := range when {
		if when[i].flags != flags {
			return 0, Error(syscall.EINVAL)
		}
	}
	var times [chunk]C.uint64_t
	return w.many(timers, when, errs, func(c *C.struct_hwheel, at int,
		handles *C.hwheel_timer_t, n C.uint32_t, results *C.int32_t) C.int {
		for i := 0; i < int(n); i++ {
			times[i] = C.uint64_t(when[at+i].ns)
		}
		return C.hwheel_timer_mod_many(c, handles, &times[0], n, C.uint32_t(flags), results)
	})
}

// DeleteMany does what Delete does for each timer, with one crossing into C for many. It
// returns the number of timers that existed. errs, if it is not nil, receives the error
// of each.
func (w *Wheel) DeleteMany(timers []Timer, errs []error) (int, error) {
	return w.many(timers, nil, errs, func(c *C.struct_hwheel, _ int,
		handles *C.hwheel_timer_t, n C.uint32_t, results *C.int32_t) C.int {
		return C.hwheel_timer_delete_many(c, handles, n, results)
	})
}

// many calls for a chunk of the timers at a time; when has the times of the calls, if any.
func (w *Wheel) many(timers []Timer, when []When, errs []error, call func(*C.struct_hwheel,
	int, *C.hwheel_timer_t, C.uint32_t, *C.int32_t) C.int) (int, error) {
	if errs != nil && len(errs) != len(timers) {
		return 0, Error(syscall.EINVAL)
	}
	c, e := w.enter()
	if c == nil {
		return 0, ErrClosed
	}
	defer w.leave(e)
	var results [chunk]C.int32_t
	total := 0
	for at := 0; at < len(timers); at += chunk {
		n := len(timers) - at
		if n > chunk {
			n = chunk
		}
		done := call(c, at, (*C.hwheel_timer_t)(unsafe.Pointer(&timers[at])), C.uint32_t(n),
			&results[0])
		if done < 0 {
			return total, failure(done)
		}
		total += int(done)
		for i := 0; errs != nil && i < n; i++ {
			errs[at+i] = nil
			if results[i] < 0 {
				var ns C.uint64_t
				if when != nil {
					ns, _ = when[at+i].times()
				}
				errs[at+i] = failure(C.int(results[i]), ns)
			}
		}
	}
	return total, nil
}
