package timers

import (
	"context"
	"sync/atomic"
	"time"
)

// WithTimeout is context.WithTimeout by a timer of the wheel. A context that is derived from
// it ends in a goroutine, so it may end a moment after the call that cancels its parent.
func (t *Timers) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return t.WithDeadline(parent, time.Now().Add(d))
}

// WithDeadline is context.WithDeadline by a timer of the wheel. If the wheel has no room
// for the timer, it is context.WithDeadline itself.
func (t *Timers) WithDeadline(parent context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if earlier, ok := parent.Deadline(); ok && earlier.Before(deadline) {
		return context.WithCancel(parent)
	}
	inner, cancel := context.WithCancel(parent)
	c := &timed{Context: inner, cancel: cancel, deadline: deadline}
	left := time.Until(deadline)
	if left <= 0 {
		c.expire()
		return c, cancel
	}
	timer := t.AfterFunc(left, c.expire)
	if timer.Err() != nil {
		cancel()
		return context.WithDeadline(parent, deadline)
	}
	return c, func() {
		timer.Stop()
		cancel()
	}
}

// Why a context has ended. It is decided once.
const (
	undecided = iota
	cancelled
	expired
)

// timed is a context with a deadline. The one inside knows when the parent ends.
type timed struct {
	context.Context
	cancel   context.CancelFunc
	deadline time.Time
	why      atomic.Int32
}

func (c *timed) expire() {
	if c.Err() == nil {
		c.why.CompareAndSwap(undecided, expired)
	}
	c.cancel()
}

func (c *timed) Deadline() (time.Time, bool) {
	return c.deadline, true
}

func (c *timed) Err() error {
	err := c.Context.Err()
	if err == nil {
		return nil
	}
	c.why.CompareAndSwap(undecided, cancelled)
	if c.why.Load() == expired {
		return context.DeadlineExceeded
	}
	return err
}

// Value hides the context inside from the children: they would take over its error.
func (c *timed) Value(key any) any {
	value := c.Context.Value(key)
	if value == any(c.Context) {
		return nil
	}
	return value
}
