package hwheel

/*
#include <hwheel.h>
*/
import "C"

import (
	"context"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Poll writes the events that are due into the slice, in the order of their
// ticks, and returns the number of events. A full slice means that there may be
// more. An empty slice drops the events.
func (w *Wheel) Poll(events []Event) (int, error) {
	return result(C.hwheel_poll(w.c, pointer(events), C.uint32_t(len(events)), nil))
}

// Advance is Poll for a manual clock, which moves to nowNs.
func (w *Wheel) Advance(nowNs uint64, events []Event) (int, error) {
	return result(C.hwheel_advance(w.c, C.uint64_t(nowNs), pointer(events), C.uint32_t(len(events)), nil))
}

// List writes pending timers into the slice and returns the number of timers. The
// cursor is 0 before the first call, and each call moves it on. Fewer timers than
// the slice has room for mean the end.
func (w *Wheel) List(cursor *uint64, events []Event) (int, error) {
	if cursor == nil {
		return result(-C.int(syscall.EINVAL))
	}
	at := C.uint64_t(*cursor)
	n, err := result(C.hwheel_list(w.c, &at, pointer(events), C.uint32_t(len(events))))
	*cursor = uint64(at)
	return n, err
}

// Drain shuts the wheel down, and hands the pending timers back, which will not
// fire. A full slice means that there may be more.
func (w *Wheel) Drain(events []Event) (int, error) {
	return result(C.hwheel_drain(w.c, pointer(events), C.uint32_t(len(events))))
}

// Fd is a descriptor that becomes readable when a timer is due; then call Poll. It
// may be readable with nothing due. It belongs to the wheel: do not read or close it.
func (w *Wheel) Fd() (int, error) {
	return result(C.hwheel_fd(w.c))
}

// Run drives the wheel until the context is done, and returns the context's error.
// It calls handle with batches of events, each as long as the slice at most. In
// between the goroutine sleeps in the runtime's poller and takes up no thread.
func (w *Wheel) Run(ctx context.Context, events []Event, handle func([]Event)) error {
	if len(events) == 0 {
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
			file.SetReadDeadline(time.Unix(1, 0)) // wakes the sleeper
		case <-ended:
		}
	}()
	var failed error
	err = conn.Read(func(uintptr) bool {
		for ctx.Err() == nil {
			var n int
			if n, failed = w.Poll(events); failed != nil {
				return true
			}
			if n > 0 {
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
	return err
}

// A file of our own on the wheel's descriptor, in the runtime's poller.
func (w *Wheel) file() (*os.File, error) {
	fd, err := w.Fd()
	if err != nil {
		return nil, err
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

func pointer(events []Event) *C.struct_hwheel_event {
	if len(events) == 0 {
		return nil
	}
	return (*C.struct_hwheel_event)(unsafe.Pointer(&events[0]))
}
