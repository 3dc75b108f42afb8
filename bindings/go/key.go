package hwheel

/*
#include <hwheel.h>
*/
import "C"

import "unsafe"

// A keyed timer fires once, and any 1 to 255 bytes are its key: KeyOf makes one of a
// number. The Timer of its event is zero.

// KeySet gives a key a timer. True if it replaced a pending timer, which then does
// not fire.
func (w *Wheel) KeySet(key []byte, when When, cookie uint64) (bool, error) {
	c, e := w.enter()
	if c == nil {
		return false, ErrClosed
	}
	p, n := keyOf(key)
	ns, flags := when.times()
	r := C.hwheel_key_set(c, p, n, ns, nil, C.uint64_t(cookie), flags)
	w.leave(e)
	return yes(r, ns)
}

// KeyMod moves the pending timer of a key, which keeps its cookie. False if the key
// has none.
func (w *Wheel) KeyMod(key []byte, when When) (bool, error) {
	c, e := w.enter()
	if c == nil {
		return false, ErrClosed
	}
	p, n := keyOf(key)
	ns, flags := when.times()
	r := C.hwheel_key_mod(c, p, n, ns, flags)
	w.leave(e)
	return yes(r, ns)
}

// KeyDelete cancels the pending timer of a key. False if the key has none.
func (w *Wheel) KeyDelete(key []byte) (bool, error) {
	c, e := w.enter()
	if c == nil {
		return false, ErrClosed
	}
	p, n := keyOf(key)
	r := C.hwheel_key_delete(c, p, n)
	w.leave(e)
	return yes(r)
}

// KeyPending says whether a key has a pending timer.
func (w *Wheel) KeyPending(key []byte) (bool, error) {
	c, e := w.enter()
	if c == nil {
		return false, ErrClosed
	}
	p, n := keyOf(key)
	r := C.hwheel_key_pending(c, p, n)
	w.leave(e)
	return yes(r)
}

// KeyOf makes a key of a number.
func KeyOf(number uint64) []byte {
	key := make([]byte, 8)
	*(*uint64)(unsafe.Pointer(&key[0])) = number
	return key
}

// keyOf lends a key to C for the length of a call.
func keyOf(key []byte) (unsafe.Pointer, C.uint32_t) {
	if len(key) == 0 {
		return nil, 0
	}
	n := len(key)
	if n > 256 {
		n = 256 // which the library refuses, too
	}
	return unsafe.Pointer(&key[0]), C.uint32_t(n)
}
