package timers

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	hwheel "github.com/hwheel/hwheel/bindings/go"
)

func ends(t *testing.T, ctx context.Context, want error) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the context did not end")
	}
	for i := 0; i < 2; i++ {
		if err := ctx.Err(); err != want {
			t.Errorf("ended with %v instead of %v", err, want)
		}
	}
}

type key struct{}

func TestATimeoutEndsAContextAndItsChildren(t *testing.T) {
	timers := create(t, hwheel.Options{})
	begin := time.Now()
	parent := context.WithValue(context.Background(), key{}, "value")
	ctx, cancel := timers.WithTimeout(parent, 20*time.Millisecond)
	defer cancel()
	child, cancelChild := context.WithCancel(ctx)
	defer cancelChild()
	if ctx.Err() != nil || child.Err() != nil || child.Value(key{}) != "value" {
		t.Error(ctx.Err(), child.Err(), child.Value(key{}))
	}
	if deadline, ok := child.Deadline(); !ok || deadline.Before(begin.Add(20*time.Millisecond)) {
		t.Error(deadline, ok)
	}
	ends(t, ctx, context.DeadlineExceeded)
	if time.Since(begin) < 20*time.Millisecond {
		t.Error("early")
	}
	ends(t, child, context.DeadlineExceeded)
	cancel()
	ends(t, ctx, context.DeadlineExceeded)
}

func TestCancelStopsTheTimer(t *testing.T) {
	timers := create(t, hwheel.Options{})
	ctx, cancel := timers.WithTimeout(context.Background(), time.Hour)
	cancel()
	ends(t, ctx, context.Canceled)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		stats, err := timers.Stats()
		if err == nil && stats.Pending == 0 {
			return
		}
		if err != nil || time.Now().After(end) {
			t.Fatal(stats.Pending, err)
		}
	}
}

// The deadline of a context of the wheel, of one below a parent that can end, and of one
// below both.
func each(timers *Timers, check func(name string, parent context.Context, cancel context.CancelFunc)) {
	parent, cancel := context.WithCancel(context.Background())
	check("cancel", parent, cancel)
	parent, cancel = timers.WithTimeout(context.Background(), time.Hour)
	check("timeout", parent, cancel)
	parent, cancel = timers.WithTimeout(context.WithValue(parent, key{}, 1), time.Minute)
	check("timeout in timeout", context.WithValue(parent, key{}, 2), cancel)
}

// causeOf is context.Cause where package context has it.
var causeOf = context.Context.Err

func TestCancelEndsTheChildrenBeforeItReturns(t *testing.T) {
	timers := create(t, hwheel.Options{})
	each(timers, func(name string, parent context.Context, cancel context.CancelFunc) {
		ctx, stop := timers.WithTimeout(parent, time.Second)
		child, stopChild := context.WithCancel(context.WithValue(ctx, key{}, 3))
		grandchild, stopGrandchild := timers.WithTimeout(child, time.Millisecond*900)
		cancel()
		for i, ended := range []context.Context{parent, ctx, child, grandchild} {
			if ended.Err() != context.Canceled || causeOf(ended) != context.Canceled {
				t.Errorf("%s: context %d: %v", name, i, ended.Err())
			}
			select {
			case <-ended.Done():
			default:
				t.Errorf("%s: context %d is not done", name, i)
			}
		}
		stopGrandchild()
		stopChild()
		stop()
	})
}

func TestAContextTakesNoGoroutine(t *testing.T) {
	timers := create(t, hwheel.Options{})
	time.Sleep(10 * time.Millisecond)
	before := runtime.NumGoroutine()
	each(timers, func(name string, parent context.Context, cancel context.CancelFunc) {
		for i := 0; i < 100; i++ {
			ctx, stop := timers.WithTimeout(parent, time.Hour)
			child, stopChild := context.WithCancel(context.WithValue(ctx, key{}, i))
			defer stop()
			defer stopChild()
			_ = child
		}
		if n := runtime.NumGoroutine(); n > before+10 {
			t.Errorf("%s: %d goroutines", name, n-before)
		}
		cancel()
	})
}

// Also while the deadline ends it.
func TestAContextIsPrinted(t *testing.T) {
	timers := create(t, hwheel.Options{})
	for i := 0; i < 100; i++ {
		value := context.WithValue(context.Background(), key{}, "v")
		ctx, cancel := timers.WithTimeout(value, time.Millisecond)
		child, cancelChild := context.WithCancel(ctx)
		for ctx.Err() == nil {
			text, below := fmt.Sprint(ctx), fmt.Sprintf("%+v", child)
			if !strings.HasPrefix(text, fmt.Sprint(value)+".WithDeadline(") ||
				!strings.HasPrefix(below, fmt.Sprint(value)+".WithDeadline(") ||
				!strings.HasSuffix(below, ".WithCancel") {
				t.Fatal(text, below)
			}
		}
		ends(t, child, context.DeadlineExceeded)
		cancelChild()
		cancel()
	}
	type plain struct{ context.Context }
	ctx, cancel := timers.WithTimeout(plain{context.Background()}, time.Hour)
	defer cancel()
	if text := fmt.Sprint(ctx); !strings.HasPrefix(text, "timers.plain.WithDeadline(") {
		t.Error(text)
	}
}

func TestThereIsNoContextWithoutAParent(t *testing.T) {
	timers := create(t, hwheel.Options{})
	defer func() {
		if recover() == nil {
			t.Error("nil is a parent")
		}
	}()
	timers.WithTimeout(nil, time.Hour) //lint:ignore SA1012 as in package context
}

func TestTheParentEndsAContext(t *testing.T) {
	timers := create(t, hwheel.Options{})
	parent, cancelParent := context.WithCancel(context.Background())
	ctx, cancel := timers.WithTimeout(parent, 10*time.Millisecond)
	defer cancel()
	cancelParent()
	ends(t, ctx, context.Canceled)
	time.Sleep(30 * time.Millisecond)
	ends(t, ctx, context.Canceled)
}

func TestTheParentsDeadlineIsEarlier(t *testing.T) {
	timers := create(t, hwheel.Options{})
	parent, cancelParent := timers.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancelParent()
	ctx, cancel := timers.WithTimeout(parent, time.Hour)
	defer cancel()
	ends(t, ctx, context.DeadlineExceeded)
}

func TestADeadlineThatHasPassed(t *testing.T) {
	timers := create(t, hwheel.Options{})
	ctx, cancel := timers.WithTimeout(context.Background(), -time.Second)
	defer cancel()
	if err := ctx.Err(); err != context.DeadlineExceeded {
		t.Error(err)
	}
}

func TestAClosedWheelLeavesTheDeadlineToPackageContext(t *testing.T) {
	timers := create(t, hwheel.Options{})
	timers.Close()
	ctx, cancel := timers.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	ends(t, ctx, context.DeadlineExceeded)
}
