package timers

import (
	"context"
	"errors"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	hwheel "github.com/hwheel/hwheel/bindings/go"
)

// Set by race_test.go.
var underRaceDetector bool

func create(t testing.TB, options hwheel.Options) *Timers {
	timers, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { timers.Close() })
	return timers
}

func receive(t *testing.T, c <-chan time.Duration) time.Duration {
	t.Helper()
	select {
	case d := <-c:
		return d
	case <-time.After(20 * time.Second):
		t.Fatal("the function was not called")
		return 0
	}
}

func TestFunctionsAreCalledOnceAndNeverEarly(t *testing.T) {
	timers := create(t, hwheel.Options{})
	var calls [2000]atomic.Int32
	var early atomic.Int32
	var all sync.WaitGroup
	for i := range calls {
		i, d := i, time.Duration(i%50)*time.Millisecond/2
		all.Add(1)
		begin := time.Now()
		timers.AfterFunc(d, func() {
			if time.Since(begin) < d {
				early.Add(1)
			}
			calls[i].Add(1)
			all.Done()
		})
	}
	all.Wait()
	time.Sleep(30 * time.Millisecond)
	for i := range calls {
		if n := calls[i].Load(); n != 1 {
			t.Fatalf("timer %d was called %d times", i, n)
		}
	}
	if n := early.Load(); n != 0 {
		t.Fatalf("%d timers were early", n)
	}
}

// During the first reading the system takes the processor away.
func TestTheClocksAreReadTogether(t *testing.T) {
	readings := uint64(0)
	begin := time.Now()
	at, ns, err := together(func() (uint64, error) {
		if readings++; readings == 1 {
			time.Sleep(200 * time.Millisecond)
		}
		return readings, nil
	})
	if ns < 2 || at.Sub(begin) < 200*time.Millisecond || err != nil {
		t.Error(at.Sub(begin), ns, err)
	}
	_, _, err = together(func() (uint64, error) { return 0, hwheel.ErrClosed })
	if err != hwheel.ErrClosed {
		t.Error(err)
	}
}

// As TestAfterFunc of package time: a function arms the next.
func TestAFunctionArmsTheNext(t *testing.T) {
	timers := create(t, hwheel.Options{})
	left, done := 10, make(chan time.Duration)
	var f func()
	f = func() {
		if left--; left >= 0 {
			timers.AfterFunc(0, f)
		} else {
			done <- 0
		}
	}
	timers.AfterFunc(0, f)
	receive(t, done)
}

// A function is called at the next tick. What is received is there at once.
func TestATimeThatHasPassed(t *testing.T) {
	timers := create(t, hwheel.Options{Tick: 200 * time.Millisecond})
	for _, d := range []time.Duration{0, -1, -1 << 63} {
		c, begin := make(chan time.Duration, 1), time.Now()
		timers.AfterFunc(d, func() { c <- time.Since(begin) })
		if took := receive(t, c); took > 10*time.Second {
			t.Errorf("%v took %v", d, took)
		}
		timer := timers.NewTimer(d)
		for i := 0; i < 2; i++ {
			now(t, timer.C)
			if timer.Reset(d) {
				t.Error("it was pending")
			}
		}
		if !timer.Reset(d) || !timer.Stop() {
			t.Error("nobody has received, and it is not pending")
		}
		silent(t, timer.C)
		timer.Reset(time.Hour)
		if !timer.Reset(d) {
			t.Error("it was not pending")
		}
		now(t, timer.C)
		now(t, timers.After(d))
		begin = time.Now()
		timers.Sleep(d)
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Error("Sleep took", took)
		}
	}
}

func now(t *testing.T, c <-chan time.Time) {
	t.Helper()
	select {
	case <-c:
	default:
		t.Error("no time in the channel")
	}
}

func silent(t *testing.T, c <-chan time.Time) {
	t.Helper()
	select {
	case <-c:
		t.Error("a time in the channel")
	default:
	}
}

func TestChannels(t *testing.T) {
	timers := create(t, hwheel.Options{})
	begin := time.Now()
	timer := timers.NewTimer(20 * time.Millisecond)
	if at := <-timer.C; at.Before(begin.Add(20*time.Millisecond)) || timer.Stop() {
		t.Error("early:", at.Sub(begin))
	}
	if at := <-timers.After(5 * time.Millisecond); at.Before(begin.Add(25 * time.Millisecond)) {
		t.Error("early:", at.Sub(begin))
	}
	// Nothing from before Stop and Reset.
	for i := 0; i < 3; i++ {
		timer.Reset(time.Millisecond)
		time.Sleep(30 * time.Millisecond)
		if !timer.Stop() || timer.Stop() {
			t.Error("it was not pending, or stopped twice")
		}
		silent(t, timer.C)
		timer.Reset(time.Millisecond)
		time.Sleep(30 * time.Millisecond)
		if !timer.Reset(time.Hour) {
			t.Error("it was not pending")
		}
		silent(t, timer.C)
	}
	begin = time.Now()
	timers.Sleep(10 * time.Millisecond)
	if took := time.Since(begin); took < 10*time.Millisecond {
		t.Error("slept", took)
	}
}

func TestTicker(t *testing.T) {
	timers := create(t, hwheel.Options{})
	begin := time.Now()
	ticker := timers.NewTicker(10 * time.Millisecond)
	for i := 1; i <= 20; i++ {
		at := (<-ticker.C).Sub(begin)
		if at < time.Duration(i)*10*time.Millisecond {
			t.Errorf("tick %d at %v", i, at)
		}
	}
	// Ticks that nobody takes are dropped, and the rhythm stays.
	time.Sleep(time.Until(begin.Add(305 * time.Millisecond)))
	<-ticker.C
	if at := (<-ticker.C).Sub(begin); at < 310*time.Millisecond {
		t.Error("a tick of before, at", at)
	}
	ticker.Reset(time.Hour)
	silent(t, ticker.C)
	ticker.Reset(time.Millisecond)
	<-ticker.C
	<-ticker.C
	ticker.Stop()
	silent(t, ticker.C)
	time.Sleep(20 * time.Millisecond)
	silent(t, ticker.C)
	if timers.Tick(0) != nil || timers.Tick(-1) != nil {
		t.Error("a period of zero")
	}
	<-timers.Tick(time.Microsecond)
	if far := timers.NewTicker(1<<63 - 1); far.Err() != nil {
		t.Error(far.Err())
	}
}

// A nil timer is an error of the program, as are these in package time.
func TestPanics(t *testing.T) {
	timers := create(t, hwheel.Options{})
	for i, call := range []func(){
		func() { new(Timer).Stop() }, func() { new(Timer).Reset(1) },
		func() { (*Timer)(nil).Stop() }, func() { (*Timer)(nil).Reset(1) },
		func() { timers.NewTicker(0) }, func() { timers.NewTicker(-1) },
		func() { timers.NewTicker(1).Reset(0) }, func() { new(Ticker).Reset(1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("call %d does not panic", i)
				}
			}()
			call()
		}()
	}
	new(Ticker).Stop()
	if err := new(Timer).Err(); !errors.Is(err, hwheel.ErrClosed) {
		t.Error(err)
	}
}

func TestChannelsWithoutRoom(t *testing.T) {
	for _, timers := range []*Timers{nil, create(t, hwheel.Options{MaxTimers: 1}), create(t, hwheel.Options{})} {
		timers.AfterFunc(time.Hour, func() {})
		if timers != nil && timers.limit == 0 {
			timers.Close()
		}
		timer, ticker := timers.NewTimer(time.Millisecond), timers.NewTicker(time.Millisecond)
		if timer.Err() == nil || timer.Stop() || ticker.Err() == nil {
			t.Error("armed without room")
		}
		ticker.Stop()
		<-timers.After(time.Millisecond)
		<-timers.Tick(time.Millisecond)
		timers.Sleep(time.Millisecond)
		timer.Reset(0)
	}
}

// Sleep keeps its duration.
func TestCloseDuringSleep(t *testing.T) {
	timers := create(t, hwheel.Options{})
	begin, slept := time.Now(), make(chan time.Duration, 1)
	go func() {
		timers.Sleep(100 * time.Millisecond)
		slept <- time.Since(begin)
	}()
	time.Sleep(20 * time.Millisecond)
	timers.Close()
	timers.Close()
	if took := receive(t, slept); took < 100*time.Millisecond {
		t.Error("slept", took)
	}
}

func TestGoroutinesThatUseAChannel(t *testing.T) {
	timers := create(t, hwheel.Options{})
	var all sync.WaitGroup
	for g := 0; g < 100; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < 100; i++ {
				one, two := timers.NewTimer(time.Millisecond), timers.NewTimer(time.Millisecond)
				other := two
				select {
				case <-one.C:
				case <-two.C:
					other = one
				}
				if i%2 == 0 && !other.Stop() || i%2 == 1 && !other.Reset(time.Hour) {
					t.Error("nobody has received, and it is not pending")
				}
				other.Stop()
			}
		}()
	}
	all.Wait()
}

// As TestStop of package time.
func TestStop(t *testing.T) {
	timers := create(t, hwheel.Options{})
	called := make(chan time.Duration, 10)
	f := func() { called <- 0 }
	crossed := timers.AfterFunc(500*time.Millisecond, f)
	time.Sleep(5 * time.Millisecond)
	gathered := timers.AfterFunc(500*time.Millisecond, f)
	for _, timer := range []*Timer{crossed, gathered} {
		if !timer.Stop() {
			t.Error("it was not pending")
		}
		if timer.Stop() {
			t.Error("it was stopped twice")
		}
	}
	fired := timers.AfterFunc(time.Millisecond, f)
	receive(t, called)
	if fired.Stop() {
		t.Error("it was stopped after the call")
	}
	select {
	case <-called:
		t.Error("a stopped function was called")
	case <-time.After(600 * time.Millisecond):
	}
}

// As testReset of package time.
func TestReset(t *testing.T) {
	timers := create(t, hwheel.Options{})
	begin, called := time.Now(), make(chan time.Duration, 10)
	timer := timers.AfterFunc(500*time.Millisecond, func() { called <- time.Since(begin) })
	time.Sleep(50 * time.Millisecond)
	if !timer.Reset(600 * time.Millisecond) {
		t.Error("it was not pending")
	}
	if at := receive(t, called); at < 650*time.Millisecond {
		t.Errorf("called at %v", at)
	}
	if timer.Reset(50 * time.Millisecond) {
		t.Error("it was pending after its call")
	}
	if at := receive(t, called); at < 700*time.Millisecond {
		t.Errorf("called at %v", at)
	}
	timer.Reset(time.Hour)
	if !timer.Reset(time.Millisecond) {
		t.Error("it was not pending")
	}
	receive(t, called)
	if timer.Stop() {
		t.Error("it is pending")
	}
}

func TestATimerThatIsStoppedSoonNeverCrosses(t *testing.T) {
	timers := create(t, hwheel.Options{})
	for i := 0; i < 10000; i++ {
		if !timers.AfterFunc(time.Hour, func() {}).Stop() {
			t.Fatal("it was not pending")
		}
	}
	stats, err := timers.Stats()
	// A change of the goroutine's processor may give it another slot.
	if err != nil || stats.Armed > 100 || stats.Live > shards {
		t.Fatal(stats.Armed, stats.Live, err)
	}
}

// As TestAfterStress of package time.
func TestGoroutinesThatArmResetAndStop(t *testing.T) {
	timers := create(t, hwheel.Options{})
	var calls, stopped, pending atomic.Int64
	var all sync.WaitGroup
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			var own [64]*Timer
			for i := 0; i < 4000; i++ {
				d := time.Duration((i*31+g)%4000) * time.Microsecond
				timer := own[i%len(own)]
				switch {
				case timer == nil || i%3 == 0:
					if timer != nil && timer.Stop() {
						stopped.Add(1)
					}
					pending.Add(1)
					own[i%len(own)] = timers.AfterFunc(d, func() { calls.Add(1) })
				case !timer.Reset(d):
					pending.Add(1)
				}
			}
		}(g)
	}
	all.Wait()
	for end := time.Now().Add(20 * time.Second); calls.Load()+stopped.Load() != pending.Load(); {
		if time.Now().After(end) {
			t.Fatal(calls.Load(), stopped.Load(), pending.Load())
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	if calls.Load()+stopped.Load() != pending.Load() {
		t.Fatal("called too often")
	}
}

func TestErrors(t *testing.T) {
	timers := create(t, hwheel.Options{MaxTimers: 1})
	first := timers.AfterFunc(time.Hour, func() {})
	second := timers.AfterFunc(time.Hour, func() {})
	if first.Err() != nil || !errors.Is(second.Err(), syscall.ENOSPC) || second.Stop() {
		t.Error(first.Err(), second.Err())
	}
	// The limit is of pending timers, whichever goroutine arms them.
	first.Stop()
	for i := 0; i < 20; i++ {
		done := make(chan *Timer)
		go func() { done <- timers.AfterFunc(time.Hour, func() {}) }()
		if timer := <-done; timer.Err() != nil || !timer.Stop() {
			t.Error(timer.Err())
		}
	}
	if err := timers.AfterFunc(0, nil).Err(); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if _, err := New(hwheel.Options{Clock: hwheel.Manual}); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if _, err := New(hwheel.Options{Tick: -1}); !errors.Is(err, hwheel.ErrNegative) {
		t.Error(err)
	}
}

func TestWhatWasNotMade(t *testing.T) {
	for _, timers := range []*Timers{nil, new(Timers)} {
		timer := timers.AfterFunc(0, func() { t.Error("called") })
		if timer.Stop() || timer.Reset(0) || !errors.Is(timer.Err(), hwheel.ErrClosed) {
			t.Error("pending without a wheel:", timer.Err())
		}
		ctx, cancel := timers.WithTimeout(context.Background(), time.Millisecond)
		ends(t, ctx, context.DeadlineExceeded)
		cancel()
		if _, err := timers.Stats(); !errors.Is(err, hwheel.ErrClosed) || timers.Close() != nil {
			t.Error("timers that New has not made have a wheel:", err)
		}
	}
}

// A copy of a timer does not take its slot away, which others own later.
func TestACopyOfATimerIsNotPending(t *testing.T) {
	timers := create(t, hwheel.Options{})
	timer := timers.AfterFunc(time.Hour, func() {})
	copied := *timer
	if copied.Stop() || !timer.Stop() || copied.Stop() {
		t.Error("the copy is pending")
	}
	called := make(chan time.Duration, 2)
	for i := 0; i < 2; i++ {
		timers.AfterFunc(5*time.Millisecond, func() { called <- 0 })
	}
	receive(t, called)
	receive(t, called)
	timer.Reset(time.Hour)
	copied = *timer
	timers.Close()
	if copied.Stop() {
		t.Error("the copy is pending on a closed wheel")
	}
}

// Timers need no descriptor: they work when the process has none left.
func TestTimersNeedNoDescriptor(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var taken []int
	for fd, err := syscall.Dup(2); err == nil; fd, err = syscall.Dup(2) {
		taken = append(taken, fd)
	}
	called := make(chan time.Duration, 1)
	timers := create(t, hwheel.Options{})
	timers.AfterFunc(5*time.Millisecond, func() { called <- 0 })
	receive(t, called)
	for _, fd := range taken {
		syscall.Close(fd)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
}

// While more goroutines compute than there are processors, a timer is at most twice as late
// as one of package time, and by a few ticks.
func TestProcessorsThatCompute(t *testing.T) {
	if underRaceDetector {
		t.Skip("the race detector changes the turns of goroutines that compute")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	timers := create(t, hwheel.Options{})
	var stop atomic.Bool
	for i := 0; i < 8; i++ {
		go func() {
			for !stop.Load() {
				for x := 0; x < 1<<20; x++ {
				}
			}
		}()
	}
	defer stop.Store(true)
	// The median of twenty of ours, and of package time.
	medians := func() (time.Duration, time.Duration) {
		var lateness [2][]time.Duration
		for i := 0; i < 20; i++ {
			for j, after := range []func(time.Duration) <-chan time.Time{timers.After, time.After} {
				begin := time.Now()
				<-after(5 * time.Millisecond)
				lateness[j] = append(lateness[j], time.Since(begin)-5*time.Millisecond)
			}
		}
		for _, late := range lateness {
			sort.Slice(late, func(i, j int) bool { return late[i] < late[j] })
		}
		return lateness[0][10], lateness[1][10]
	}
	// Other programs may take the processor at any time: from one of the two.
	for try := 1; ; try++ {
		ours, packageTime := medians()
		if ours <= 2*packageTime+5*time.Millisecond {
			return
		}
		t.Logf("late by %v, package time by %v", ours, packageTime)
		if try == 3 {
			t.Fatal("too late three times")
		}
	}
}

func TestClose(t *testing.T) {
	timers := create(t, hwheel.Options{})
	called := make(chan time.Duration, 10)
	pending := timers.AfterFunc(500*time.Millisecond, func() { called <- 0 })
	var users sync.WaitGroup
	for g := 0; g < 4; g++ {
		users.Add(1)
		go func() {
			defer users.Done()
			for timers.AfterFunc(time.Hour, func() {}).Err() == nil {
				timer, ticker := timers.NewTimer(time.Millisecond), timers.NewTicker(1)
				_, cancel := timers.WithTimeout(context.Background(), time.Millisecond)
				timers.Sleep(time.Microsecond)
				<-timers.After(0)
				timer.Reset(0)
				ticker.Reset(time.Hour)
				timer.Stop()
				ticker.Stop()
				cancel()
			}
		}()
	}
	time.Sleep(5 * time.Millisecond)
	if err := timers.Close(); err != nil {
		t.Error(err)
	}
	users.Wait()
	timers.Close()
	late := timers.AfterFunc(0, func() { called <- 0 })
	for _, timer := range []*Timer{pending, late} {
		if timer.Stop() || timer.Reset(0) || !errors.Is(timer.Err(), hwheel.ErrClosed) {
			t.Error("pending on a closed wheel:", timer.Err())
		}
	}
	select {
	case <-called:
		t.Error("called after Close")
	case <-time.After(600 * time.Millisecond):
	}
}
