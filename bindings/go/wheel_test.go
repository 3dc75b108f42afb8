package hwheel

import (
	"context"
	"errors"
	"math"
	"sync"
	"syscall"
	"testing"
	"time"
)

const ms = 1000000

func manual(t *testing.T, options Options) *Wheel {
	t.Helper()
	options.Clock = Manual
	return open(t, options)
}

func open(t *testing.T, options Options) *Wheel {
	t.Helper()
	w, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// must is for calls that have a value and an error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func fails[T any](t *testing.T, want syscall.Errno) func(T, error) {
	t.Helper()
	return func(_ T, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

func TestAnEventTellsTimerCookieAndDeadline(t *testing.T) {
	w := manual(t, Options{})
	events := make([]Event, 4)
	timer := must(w.After(5*time.Millisecond, math.MaxUint64))
	equal(t, must(w.Advance(5*ms-1, events)), 0)
	equal(t, must(w.Advance(5*ms, events)), 1)
	equal(t, events[0], Event{Timer: timer, Cookie: math.MaxUint64, DeadlineNs: 5 * ms})
	equal(t, must(w.Advance(6*ms, events)), 0)
}

func TestAFullBatchMeansThereMayBeMore(t *testing.T) {
	w := manual(t, Options{})
	events := make([]Event, 4)
	for cookie := uint64(0); cookie < 10; cookie++ {
		must(w.At(cookie*ms, cookie))
	}
	next := uint64(0)
	for _, want := range []int{4, 4, 2, 0} {
		n := must(w.Advance(20*ms, events))
		equal(t, n, want)
		for _, e := range events[:n] {
			equal(t, e.Cookie, next)
			next++
		}
	}
}

func TestAnEmptySliceDropsEvents(t *testing.T) {
	w := manual(t, Options{})
	must(w.At(ms, 1))
	equal(t, must(w.Advance(ms, nil)), 0)
	equal(t, must(w.Stats()).Unclaimed, 1)
}

func TestMissedPeriods(t *testing.T) {
	w := manual(t, Options{})
	events := make([]Event, 16)
	timer := must(w.Every(time.Millisecond, time.Millisecond, 1, Skip))
	equal(t, must(w.Advance(10*ms, events)), 1)
	equal(t, events[0].Missed, 9)
	equal(t, must(w.Delete(timer)), true)
	must(w.Every(time.Millisecond, time.Millisecond, 2, Burst))
	equal(t, must(w.Advance(20*ms, events)), 10)
}

func TestAKeyThatIsSetAgainMovesItsTimer(t *testing.T) {
	w := manual(t, Options{})
	events := make([]Event, 4)
	key := []byte("session 7")
	equal(t, must(w.KeySet(key, time.Millisecond, 1)), false)
	equal(t, must(w.IDSet(7, time.Millisecond, 2)), false)
	equal(t, must(w.KeySet(key, 2*time.Millisecond, 3)), true)
	equal(t, must(w.IDSet(7, 3*time.Millisecond, 4)), true)
	equal(t, must(w.Advance(2*ms, events)), 1)
	equal(t, events[0], Event{Cookie: 3, DeadlineNs: 2 * ms})
	equal(t, must(w.KeyPending(key)), false)
	equal(t, must(w.KeyMove(key, time.Millisecond)), false)
	equal(t, must(w.KeyDelete(key)), false)
	equal(t, must(w.IDMove(7, time.Second)), true)
	equal(t, must(w.IDPending(7)), true)
	equal(t, must(w.IDDelete(7)), true)
	_, err := w.KeySet(nil, time.Millisecond, 1)
	equal(t, errors.Is(err, syscall.EINVAL), true)
}

func TestAReusableTimer(t *testing.T) {
	w := manual(t, Options{})
	timer := must(w.Setup(7))
	equal(t, must(w.Pending(timer)), false)
	equal(t, must(w.ModPending(timer, time.Second)), false)
	equal(t, must(w.Mod(timer, 10*time.Millisecond)), false)
	equal(t, must(w.Reduce(timer, 20*time.Millisecond)), true)
	left, armed, err := w.Remaining(timer)
	if left != 10*time.Millisecond || !armed || err != nil {
		t.Error(left, armed, err)
	}
	equal(t, must(w.ModAt(timer, 3*ms)), true)
	deadline, armed, err := w.NextExpiry()
	if deadline > 3*ms || !armed || err != nil {
		t.Error(deadline, armed, err)
	}
	events := make([]Event, 2)
	equal(t, must(w.Advance(3*ms, events)), 1)
	equal(t, events[0].Cookie, 7)
	equal(t, must(w.Mod(timer, Never)), false)
	left, _, _ = w.Remaining(timer)
	equal(t, left, Never)
	equal(t, must(w.Shutdown(timer)), true)
	fails[bool](t, syscall.ESHUTDOWN)(w.Mod(timer, 0))
	equal(t, must(w.Free(timer)), false)
	fails[bool](t, syscall.ESTALE)(w.Free(timer))
}

func TestErrors(t *testing.T) {
	w := manual(t, Options{MaxTimers: 1})
	fails[bool](t, syscall.ESTALE)(w.Delete(12345))
	fails[Timer](t, syscall.EINVAL)(w.Every(0, 0, 1, Skip))
	fails[int](t, syscall.EINVAL)(w.Poll(nil)) // its clock is manual
	must(w.After(Never, 1))
	fails[Timer](t, syscall.ENOSPC)(w.After(0, 2))
	fails[*Wheel](t, syscall.EINVAL)(New(Options{Slots: 3}))
	closed := must(New(Options{}))
	for i := 0; i < 2; i++ {
		if err := closed.Close(); err != nil {
			t.Error(err)
		}
	}
	fails[Timer](t, syscall.EINVAL)(closed.After(0, 1))
}

func TestDrain(t *testing.T) {
	w := manual(t, Options{})
	timer := must(w.After(Never, 9))
	events := make([]Event, 2)
	equal(t, must(w.Drain(events)), 1)
	equal(t, events[0], Event{Timer: timer, Cookie: 9, DeadlineNs: math.MaxUint64, Flags: Drained})
	fails[Timer](t, syscall.ESHUTDOWN)(w.After(0, 1))
}

func TestRunHandsOverFromManyGoroutines(t *testing.T) {
	const goroutines, each = 8, 2000
	w := open(t, Options{})
	seen := make([]bool, goroutines*each)
	left := len(seen)
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	var arming sync.WaitGroup
	for g := 0; g < goroutines; g++ {
		arming.Add(1)
		go func(first uint64) {
			defer arming.Done()
			for i := uint64(0); i < each; i++ {
				must(w.After(time.Duration(i%20)*time.Millisecond, first+i))
				must(w.Delete(must(w.After(time.Hour, 0))))
			}
		}(uint64(g * each))
	}
	err := w.Run(ctx, make([]Event, 256), func(events []Event) {
		now := must(w.Now())
		for _, e := range events {
			if seen[e.Cookie] || now < e.DeadlineNs {
				t.Errorf("twice or early: %+v at %d", e, now)
			}
			seen[e.Cookie] = true
		}
		if left -= len(events); left == 0 {
			done()
		}
	})
	arming.Wait()
	if !errors.Is(err, context.Canceled) || left != 0 {
		t.Errorf("%v, %d left", err, left)
	}
	stats := must(w.Stats())
	equal(t, stats.Live, 0)
	equal(t, stats.Armed, stats.Fired+stats.Cancelled)
	late := uint64(0)
	for _, n := range stats.Lateness {
		late += n
	}
	equal(t, late, stats.Fired)
}

func TestRunSleepsAndIsWokenByAnEarlierDeadline(t *testing.T) {
	w := open(t, Options{})
	must(w.After(time.Hour, 1))
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	time.AfterFunc(50*time.Millisecond, func() { must(w.After(time.Millisecond, 2)) })
	var got uint64
	err := w.Run(ctx, make([]Event, 1), func(events []Event) {
		got = events[0].Cookie
		done()
	})
	equal(t, got, 2)
	equal(t, errors.Is(err, context.Canceled), true)
}

func TestRunEndsWithItsContext(t *testing.T) {
	w := open(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	equal(t, errors.Is(w.Run(ctx, make([]Event, 1), nil), context.DeadlineExceeded), true)
	equal(t, errors.Is(w.Run(context.Background(), nil, nil), syscall.EINVAL), true)
}

func TestVersion(t *testing.T) {
	if Version() < "0.1.0" {
		t.Error(Version())
	}
}
