package hwheel

/*
#include <hwheel.h>
*/
import "C"

import (
	"time"
	"unsafe"
)

// Keyed timers fire once and are named by any 1 to 255 bytes, or by a number:
// the same four calls for either. The Timer of their event is zero.

// KeySet gives a key a timer. True: its pending timer was replaced, and does
// not fire.
func (w *Wheel) KeySet(key []byte, delay time.Duration, cookie uint64) (bool, error) {
	p, n := keyOf(key)
	return yes(C.hwheel_key_set(w.c, p, n, nanoseconds(delay), nil, C.uint64_t(cookie), 0))
}

// KeyMove moves the pending timer of a key, which keeps its cookie. False if
// it has none.
func (w *Wheel) KeyMove(key []byte, delay time.Duration) (bool, error) {
	p, n := keyOf(key)
	return yes(C.hwheel_key_move(w.c, p, n, nanoseconds(delay), 0))
}

// KeyDelete cancels the pending timer of a key. False if it has none, or not
// any more.
func (w *Wheel) KeyDelete(key []byte) (bool, error) {
	p, n := keyOf(key)
	return yes(C.hwheel_key_delete(w.c, p, n))
}

// KeyPending says whether a key has a pending timer.
func (w *Wheel) KeyPending(key []byte) (bool, error) {
	p, n := keyOf(key)
	return yes(C.hwheel_key_pending(w.c, p, n))
}

// IDSet is KeySet for a number.
func (w *Wheel) IDSet(id uint64, delay time.Duration, cookie uint64) (bool, error) {
	return yes(C.hwheel_id_set(w.c, C.uint64_t(id), nanoseconds(delay), nil, C.uint64_t(cookie), 0))
}

// IDMove is KeyMove for a number.
func (w *Wheel) IDMove(id uint64, delay time.Duration) (bool, error) {
	return yes(C.hwheel_id_move(w.c, C.uint64_t(id), nanoseconds(delay), 0))
}

// IDDelete is KeyDelete for a number.
func (w *Wheel) IDDelete(id uint64) (bool, error) {
	return yes(C.hwheel_id_delete(w.c, C.uint64_t(id)))
}

// IDPending is KeyPending for a number.
func (w *Wheel) IDPending(id uint64) (bool, error) {
	return yes(C.hwheel_id_pending(w.c, C.uint64_t(id)))
}

// keyOf lends a key to C for the length of a call.
func keyOf(key []byte) (unsafe.Pointer, C.uint32_t) {
	if len(key) == 0 {
		return nil, 0
	}
	return unsafe.Pointer(&key[0]), C.uint32_t(len(key))
}
