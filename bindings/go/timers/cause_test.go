//go:build go1.21

package timers

import (
	"context"
	"errors"
	"testing"
	"time"

	hwheel "github.com/hwheel/hwheel/bindings/go"
)

func init() {
	causeOf = context.Cause
}

// With a parent that never ends, and with one that may: as in package context.
func TestCauses(t *testing.T) {
	timers := create(t, hwheel.Options{})
	why := errors.New("too slow")
	mayEnd, end := context.WithCancel(context.Background())
	defer end()
	for name, parent := range map[string]context.Context{"never ends": context.Background(), "may end": mayEnd} {
		parent = context.WithValue(parent, key{}, "value")
		ctx, cancel := timers.WithTimeoutCause(parent, 5*time.Millisecond, why)
		child, cancelChild := context.WithCancel(ctx)
		defer cancelChild()
		if cause := context.Cause(ctx); cause != nil {
			t.Error(name, cause)
		}
		ends(t, ctx, context.DeadlineExceeded)
		ends(t, child, context.DeadlineExceeded)
		if a, b := context.Cause(ctx), context.Cause(child); a != why || b != why {
			t.Errorf("%s: %v, and of the child %v", name, a, b)
		}
		if child.Value(key{}) != "value" || ctx.Value(t) != nil {
			t.Error(name, child.Value(key{}), ctx.Value(t))
		}
		cancel()

		ctx, cancel = timers.WithTimeoutCause(parent, time.Hour, why)
		cancel()
		ends(t, ctx, context.Canceled)
		if cause := context.Cause(ctx); cause != context.Canceled {
			t.Errorf("%s: canceled, and the cause is %v", name, cause)
		}

		ctx, cancel = timers.WithDeadlineCause(parent, time.Now().Add(-1), why)
		if cause := context.Cause(ctx); cause != why {
			t.Errorf("%s: %v for a deadline that has passed", name, cause)
		}
		cancel()

		ctx, cancel = timers.WithTimeoutCause(parent, time.Millisecond, nil)
		ends(t, ctx, context.DeadlineExceeded)
		if cause := context.Cause(ctx); cause != context.DeadlineExceeded {
			t.Errorf("%s: %v without a cause", name, cause)
		}
		cancel()
	}
}
