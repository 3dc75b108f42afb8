package hwheel

/*
#include <hwheel.h>
*/
import "C"

import (
	"context"
	"math"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Poll writes the events that are due into the slice, in the order of their
// ticks, and returns the number of events. A full slice means that there may be
// more. An empty slice drops the events.
func (w *Wheel) Poll(events []Event) (int, error) {
	c, e := w.enter()
	if c == nil {
		return 0, ErrClosed
	}
	p, room := array(events)
	n := C.hwheel_poll(c, p, room, nil)
	w.leave(e)
	return count(n)
}

// Advance is Poll for a manual clock, which moves to nowNs.
func (w *Wheel) Advance(nowNs uint64, events []Event) (int, error) {
	c, e := w.enter()
	if c == nil {
		return 0, ErrClosed
	}
	p, room := array(events)
	n := C.hwheel_advance(c, C.uint64_t(nowNs), p, room, nil)
	w.leave(e)
	return count(n)
}

// List writes pending timers into the slice and returns the number of timers. The
// cursor is 0 before the first call, and each call moves it on. Fewer timers than
// the slice has room for mean the end.
func (w *Wheel) List(cursor *uint64, events []Event) (int, error) {
	c, e := w.enter()
	if c == nil {
		return 0, ErrClosed
	}
	defer w.leave(e)
	if cursor == nil {
		return 0, Error(syscall.EINVAL)
	}
	at := C.uint64_t(*cursor)
	p, room := array(events)
	n, err := count(C.hwheel_list(c, &at, p, room))
	*cursor = uint64(at)
	return n, err
}

// Drain shuts the wheel down, and hands the pending timers back, which will not
// fire. A full slice means that there may be more.
func (w *Wheel) Drain(events []Event) (int, error) {
	return w.call(func(c *C.struct_hwheel) C.int {
		p, room := array(events)
		return C.hwheel_drain(c, p, room)
	})
}

// Fd is a descriptor that becomes readable when a timer is due; then call Poll. It
// may be readable with nothing due. It belongs to the wheel: do not read or close it.
func (w *Wheel) Fd() (int, error) {
	return w.call(func(c *C.struct_hwheel) C.int { return C.hwheel_fd(c) })
}

// Run drives the wheel until the context is done, and returns the context's error, or
// until the wheel is closed, which is ErrClosed. It calls handle with batches of events,
// each as long as the slice at most; a nil handle drops the events. In between the
// goroutine sleeps in the runtime's poller and takes up no thread.
func (w *Wheel) Run(ctx context.Context, events []Event, handle func([]Event)) error {
	if ctx == nil || len(events) == 0 {
		return Error(syscall.EINVAL)
	}
	file, err := w.file()
	if err != nil {
		return err
	}
	defer file.Close()
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
		case <-w.done:
		case <-ended:
			return
		}
		file.SetReadDeadline(time.Unix(1, 0)) // wakes the sleeper
	}()
	var failed error
	err = conn.Read(func(uintptr) bool {
		for ctx.Err() == nil {
			var n int
			if n, failed = w.Poll(events); failed != nil {
				return true
			}
			if n > 0 && handle != nil {
				handle(events[:n])
			}
			if n < len(events) {
				return false // sleep until it is readable
			}
		}
		return true
	})
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	select {
	case <-w.done:
		return ErrClosed
	default:
		return err
	}
}

// A file of our own on the wheel's descriptor, in the runtime's poller.
func (w *Wheel) file() (*os.File, error) {
	c, e := w.enter()
	if c == nil {
		return nil, ErrClosed
	}
	defer w.leave(e)
	fd := C.hwheel_fd(c)
	if fd < 0 {
		return nil, failure(fd)
	}
	own, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return nil, errno
	}
	if err := syscall.SetNonblock(int(own), true); err != nil {
		syscall.Close(int(own))
		return nil, err
	}
	return os.NewFile(own, "hwheel"), nil
}

// array lends a slice to C for the length of a call.
func array(events []Event) (*C.struct_hwheel_event, C.uint32_t) {
	n := len(events)
	if n == 0 {
		return nil, 0
	}
	if n > math.MaxInt32 {
		n = math.MaxInt32
	}
	return (*C.struct_hwheel_event)(unsafe.Pointer(&events[0])), C.uint32_t(n)
}

func count(n C.int) (int, error) {
	if n < 0 {
		return 0, failure(n)
	}
	return int(n), nil
}
