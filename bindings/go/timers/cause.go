//go:build go1.21

package timers

import (
	"context"
	"time"
)

// WithTimeoutCause is WithTimeout with a cause, which context.Cause returns after the timeout.
func (t *Timers) WithTimeoutCause(parent context.Context, d time.Duration, why error) (context.Context, context.CancelFunc) {
	return t.WithDeadlineCause(parent, time.Now().Add(d), why)
}

// WithDeadlineCause is WithDeadline with a cause, which context.Cause returns after the
// deadline.
func (t *Timers) WithDeadlineCause(parent context.Context, deadline time.Time, why error) (context.Context, context.CancelFunc) {
	var its *cause
	if why != nil {
		c, end := context.WithCancelCause(context.Background())
		its = &cause{c, func() { end(why) }}
	}
	if c, cancel := t.expire(parent, deadline, its); c != nil {
		return c, cancel
	}
	return context.WithDeadlineCause(parent, deadline, why)
}
