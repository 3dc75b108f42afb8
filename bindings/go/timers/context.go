package timers

import (
	"context"
	"fmt"
	"time"
)

// WithTimeout is WithDeadline with the deadline at the end of a duration from now.
func (t *Timers) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return t.WithDeadline(parent, time.Now().Add(d))
}

// WithDeadline is as context.WithDeadline. A context whose parent never ends, such as
// context.Background, ends by a timer of the wheel. In other cases it is
// context.WithDeadline itself: if the parent can end, as only package context can end a
// context inside of the call that ends its parent; if the wheel has no room; in a bubble of
// testing/synctest; before Go 1.21.
func (t *Timers) WithDeadline(parent context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if c, cancel := t.expire(parent, deadline, nil); c != nil {
		return c, cancel
	}
	return context.WithDeadline(parent, deadline)
}

// expire makes a context that ends by a timer of the wheel, for a cause if there is one, or
// returns nil.
func (t *Timers) expire(parent context.Context, deadline time.Time, cause *cause) (context.Context, context.CancelFunc) {
	left := time.Until(deadline)
	if parent == nil || parent.Done() != nil || left <= 0 || !t.made() || inBubble() || endsBefore(parent, deadline) {
		return nil, nil
	}
	c := &timed{expiry: expiry{Context: parent, deadline: deadline, cause: cause}}
	var cancel context.CancelFunc
	c.Context, cancel = context.WithCancel(&c.expiry)
	var timer *Timer
	if c.expiry.child != nil {
		timer = t.AfterFunc(left, c.expiry.end)
	}
	if timer == nil || timer.Err() != nil {
		cancel()
		return nil, nil
	}
	return c, func() {
		timer.Stop()
		cancel()
	}
}

func endsBefore(parent context.Context, deadline time.Time) bool {
	earlier, ok := parent.Deadline()
	return ok && earlier.Before(deadline)
}

// timed is a context of package context, inside, whose parent is an expiry. So package
// context ends its children, without a goroutine.
type timed struct {
	context.Context
	expiry expiry
}

func (c *timed) String() string {
	parent := fmt.Sprintf("%T", c.expiry.Context)
	if named, ok := c.expiry.Context.(fmt.Stringer); ok {
		parent = named.String()
	}
	return fmt.Sprintf("%s.WithDeadline(%v [%v])",
		parent, c.expiry.deadline, time.Until(c.expiry.deadline))
}

// expiry is a context that ends one child, by a deadline. Around it is a context that never
// ends.
type expiry struct {
	context.Context
	deadline time.Time
	child    func()
	err      error
	cause    *cause
}

// cause is a context that ends with the caller's cause. Package context asks a parent for its
// cause by a key that only package context has.
type cause struct {
	context.Context
	end func()
}

// open is the channel of every expiry: its only child waits for its function instead.
var open = make(chan struct{})

func (e *expiry) Done() <-chan struct{}       { return open }
func (e *expiry) Deadline() (time.Time, bool) { return e.deadline, true }
func (e *expiry) Err() error                  { return e.err }

// Value also has the cause, for package context.
func (e *expiry) Value(key any) any {
	value := e.Context.Value(key)
	if value == nil && e.cause != nil {
		value = e.cause.Value(key)
	}
	return value
}

// AfterFunc is what package context calls, from Go 1.21 on, in place of a goroutine. Without
// the child to hold it, nothing holds the function either.
func (e *expiry) AfterFunc(end func()) func() bool {
	e.child = end
	return func() bool { return true }
}

// end runs once at most, and the child reads err in it.
func (e *expiry) end() {
	e.err = context.DeadlineExceeded
	if e.cause != nil {
		e.cause.end()
	}
	e.child()
}
