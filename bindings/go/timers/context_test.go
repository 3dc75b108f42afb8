package timers

import (
	"context"
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
