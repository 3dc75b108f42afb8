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
	timer := must(w.Once(In(5*time.Millisecond), math.MaxUint64))
	equal(t, must(w.Advance(5*ms-1, events)), 0)
	equal(t, must(w.Advance(5*ms, events)), 1)
	equal(t, events[0], Event{Timer: timer, Cookie: math.MaxUint64, DeadlineNs: 5 * ms})
	equal(t, must(w.Advance(6*ms, events)), 0)
}

func TestAFullBatchMeansThereMayBeMore(t *testing.T) {
	w := manual(t, Options{})
	events := make([]Event, 4)
	for cookie := uint64(0); cookie < 10; cookie++ {
		must(w.Once(At(cookie*ms), cookie))
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
	must(w.Once(At(ms), 1))
	equal(t, must(w.Advance(ms, nil)), 0)
	equal(t, must(w.Stats()).Unclaimed, 1)
}

func TestMissedPeriods(t *testing.T) {
	w := manual(t, Options{})
	events := make([]Event, 16)
	timer := must(w.Every(In(time.Millisecond), Period{Length: time.Millisecond}, 1))
	equal(t, must(w.Advance(10*ms, events)), 1)
	equal(t, events[0].Missed, 9)
	equal(t, must(w.Delete(timer)), true)
	must(w.Every(In(time.Millisecond), Period{Length: time.Millisecond, Missed: Burst}, 2))
	equal(t, must(w.Advance(20*ms, events)), 10)
}

func TestAKeyThatIsSetAgainMovesItsTimer(t *testing.T) {
	w := manual(t, Options{})
	events := make([]Event, 4)
	key := []byte("session 7")
	equal(t, must(w.KeySet(key, In(time.Millisecond), 1)), false)
	equal(t, must(w.KeySet(KeyOf(7), In(time.Millisecond), 2)), false)
	equal(t, must(w.KeySet(key, In(2*time.Millisecond), 3)), true)
	equal(t, must(w.KeySet(KeyOf(7), In(3*time.Millisecond), 4)), true)
	equal(t, must(w.Advance(2*ms, events)), 1)
	equal(t, events[0], Event{Cookie: 3, DeadlineNs: 2 * ms})
	equal(t, must(w.KeyPending(key)), false)
	equal(t, must(w.KeyMod(key, In(time.Millisecond))), false)
	equal(t, must(w.KeyDelete(key)), false)
	equal(t, must(w.KeyMod(KeyOf(7), In(time.Second))), true)
	equal(t, must(w.KeyPending(KeyOf(7))), true)
	equal(t, must(w.KeyDelete(KeyOf(7))), true)
	_, err := w.KeySet(nil, In(time.Millisecond), 1)
	equal(t, errors.Is(err, syscall.EINVAL), true)
}

func TestAReusableTimer(t *testing.T) {
	w := manual(t, Options{})
	timer := must(w.Setup(7))
	equal(t, must(w.Pending(timer)), false)
	equal(t, must(w.ModIf(IfPending, timer, In(time.Second))), false)
	equal(t, must(w.Mod(timer, In(10*time.Millisecond))), false)
	equal(t, must(w.ModIf(Reduce, timer, In(20*time.Millisecond))), true)
	left, armed, err := w.Remaining(timer)
	if left != 10*time.Millisecond || !armed || err != nil {
		t.Error(left, armed, err)
	}
	equal(t, must(w.Mod(timer, At(3*ms))), true)
	deadline, armed, err := w.NextExpiry()
	if deadline > 3*ms || !armed || err != nil {
		t.Error(deadline, armed, err)
	}
	events := make([]Event, 2)
	equal(t, must(w.Advance(3*ms, events)), 1)
	equal(t, events[0].Cookie, 7)
	equal(t, must(w.Mod(timer, In(Never))), false)
	left, _, _ = w.Remaining(timer)
	equal(t, left, Never)
	equal(t, must(w.Shutdown(timer)), true)
	fails[bool](t, syscall.ESHUTDOWN)(w.Mod(timer, In(0)))
	equal(t, must(w.Free(timer)), false)
	fails[bool](t, syscall.ESTALE)(w.Free(timer))
}

func TestErrors(t *testing.T) {
	w := manual(t, Options{MaxTimers: 1})
	fails[bool](t, syscall.ESTALE)(w.Delete(12345))
	fails[Timer](t, syscall.EINVAL)(w.Every(In(0), Period{}, 1))
	fails[int](t, syscall.EINVAL)(w.Poll(nil)) // its clock is manual
	must(w.Once(In(Never), 1))
	fails[Timer](t, syscall.ENOSPC)(w.Once(In(0), 2))
	fails[*Wheel](t, syscall.EINVAL)(New(Options{Slots: 3}))
	closed := must(New(Options{}))
	for i := 0; i < 2; i++ {
		if err := closed.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNegativeDurationsAreErrors(t *testing.T) {
	w := manual(t, Options{})
	timer := must(w.Setup(1))
	fails[Timer](t, syscall.EINVAL)(w.Once(In(-1), 1))
	fails[Timer](t, syscall.EINVAL)(w.Every(In(0), Period{Length: -1}, 1))
	fails[Timer](t, syscall.EINVAL)(w.Every(In(0), Period{Length: 1, Slack: -1}, 1))
	fails[bool](t, syscall.EINVAL)(w.Mod(timer, In(-time.Hour)))
	fails[bool](t, syscall.EINVAL)(w.ModRange(timer, In(0), -1))
	fails[bool](t, syscall.EINVAL)(w.KeySet(KeyOf(1), In(math.MinInt64), 1))
	fails[bool](t, syscall.EINVAL)(w.Mod(timer, At(1<<63)))
	fails[int](t, syscall.EINVAL)(w.Advance(1<<63, nil))
	errs := make([]error, 2)
	equal(t, must(w.ModMany([]Timer{timer, 1}, []When{In(-1), In(0)}, errs)), 0)
	equal(t, errs[0] == ErrNegative && errors.Is(errs[1], syscall.ESTALE), true)
	equal(t, must(w.Mod(timer, Until(time.Now().Add(-time.Hour)))), false)
	equal(t, must(w.Stats()).Live, 1)
}

func TestErrorsAreInTheLibrarysWords(t *testing.T) {
	w := manual(t, Options{})
	_, err := w.Delete(12345)
	equal(t, err.Error(), "hwheel: the timer no longer exists")
	var errno syscall.Errno
	equal(t, errors.As(err, &errno) && errno == syscall.ESTALE, true)
}

func TestList(t *testing.T) {
	w := manual(t, Options{})
	for cookie := uint64(1); cookie <= 5; cookie++ {
		must(w.Once(In(time.Second), cookie))
	}
	events, sum, cursor := make([]Event, 2), uint64(0), uint64(0)
	for n := 2; n == 2; {
		n = must(w.List(&cursor, events))
		for _, e := range events[:n] {
			equal(t, e.Flags, Listed)
			equal(t, must(w.Delete(e.Timer)), true)
			sum += e.Cookie
		}
	}
	equal(t, sum, 15)
}

func TestARangeSharesAWakeUp(t *testing.T) {
	w := manual(t, Options{})
	events := make([]Event, 2)
	timer := must(w.Setup(1))
	equal(t, must(w.ModRange(timer, In(100*time.Millisecond), 100*time.Millisecond)), false)
	equal(t, must(w.Advance(99*ms, events)), 0)
	equal(t, must(w.Advance(200*ms, events)), 1)
}

func TestDrain(t *testing.T) {
	w := manual(t, Options{})
	timer := must(w.Once(In(Never), 9))
	events := make([]Event, 2)
	equal(t, must(w.Drain(events)), 1)
	equal(t, events[0], Event{Timer: timer, Cookie: 9, DeadlineNs: math.MaxUint64, Flags: Drained})
	fails[Timer](t, syscall.ESHUTDOWN)(w.Once(In(0), 1))
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
				must(w.Once(In(time.Duration(i%20)*time.Millisecond), first+i))
				must(w.Delete(must(w.Once(In(time.Hour), 0))))
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
	must(w.Once(In(time.Hour), 1))
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	time.AfterFunc(50*time.Millisecond, func() { must(w.Once(In(time.Millisecond), 2)) })
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
	must(w.Once(In(0), 1)) // Without a function the event is dropped.
	equal(t, errors.Is(w.Run(ctx, make([]Event, 1), nil), context.DeadlineExceeded), true)
	equal(t, errors.Is(w.Run(context.Background(), nil, nil), syscall.EINVAL), true)
}

func TestVersion(t *testing.T) {
	if Version() < "0.1.0" {
		t.Error(Version())
	}
}
