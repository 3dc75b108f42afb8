//go:debug asynctimerchan=0
//go:build go1.25

package timers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	hwheel "github.com/hwheel/hwheel/bindings/go"
)

// Each use of timers in a bubble has the clock of the bubble, and leaves the timers outside
// as they are: with timers made outside, and inside.
func TestBubbles(t *testing.T) {
	outside := create(t, hwheel.Options{})
	const minute = time.Minute
	for name, use := range map[string]func(*testing.T, *Timers){
		"AfterFunc":       func(t *testing.T, all *Timers) { all.AfterFunc(minute, func() {}) },
		"AfterFunc, Stop": func(t *testing.T, all *Timers) { all.AfterFunc(minute, func() {}).Stop() },
		"AfterFunc is called": func(t *testing.T, all *Timers) {
			begin, called := time.Now(), make(chan time.Duration, 1)
			timer := all.AfterFunc(minute, func() { called <- time.Since(begin) })
			if took := <-called; took != minute {
				t.Error(took)
			}
			if timer.Stop() || timer.Err() != nil || timer.Reset(minute) {
				t.Error("pending after its call:", timer.Err())
			}
			if took := <-called; took != 2*minute {
				t.Error(took)
			}
		},
		"NewTimer": func(t *testing.T, all *Timers) {
			begin, timer := time.Now(), all.NewTimer(minute)
			if !timer.Reset(2*minute) || !timer.Stop() || timer.Stop() || timer.Reset(minute) {
				t.Error("pending, or not")
			}
			<-timer.C
			if took := time.Since(begin); took != minute {
				t.Error(took)
			}
			timer.Reset(minute)
			time.Sleep(2 * minute)
			if !timer.Stop() {
				t.Error("nobody has received, and it is not pending")
			}
			silent(t, timer.C)
			timer.Reset(minute)
			if !timer.Reset(0) {
				t.Error("it was not pending")
			}
			<-timer.C
		},
		"NewTicker": func(t *testing.T, all *Timers) {
			begin, ticker := time.Now(), all.NewTicker(minute)
			for i := time.Duration(1); i < 10; i++ {
				if <-ticker.C; time.Since(begin) != i*minute {
					t.Error(i, time.Since(begin))
				}
			}
			ticker.Reset(time.Second)
			<-ticker.C
			ticker.Stop()
			time.Sleep(time.Hour)
			silent(t, ticker.C)
		},
		"Sleep, After": func(t *testing.T, all *Timers) {
			begin := time.Now()
			all.Sleep(minute)
			<-all.After(minute)
			if took := time.Since(begin); took != 2*minute {
				t.Error(took)
			}
		},
		"contexts": func(t *testing.T, all *Timers) {
			begin := time.Now()
			ctx, cancel := all.WithTimeout(context.Background(), minute)
			defer cancel()
			<-ctx.Done()
			if took := time.Since(begin); took != minute || ctx.Err() != context.DeadlineExceeded {
				t.Error(took, ctx.Err())
			}
			_, cancel = all.WithTimeoutCause(context.Background(), minute, nil)
			cancel()
		},
		"many": func(t *testing.T, all *Timers) {
			for i := 0; i < 10*gather; i++ {
				all.AfterFunc(time.Duration(i)*time.Millisecond, func() {})
			}
			all.Sleep(minute)
		},
	} {
		for _, made := range []*Timers{outside, nil} {
			synctest.Test(t, func(t *testing.T) {
				all := made
				if all == nil {
					all = create(t, hwheel.Options{})
				}
				use(t, all)
			})
			fires(t, outside, name)
		}
	}
}

// fires says whether timers outside of a bubble are on time.
func fires(t *testing.T, all *Timers, name string) {
	t.Helper()
	time.Sleep(2 * time.Millisecond)
	for _, d := range []time.Duration{time.Millisecond, 5 * time.Millisecond} {
		a, b := all.NewTimer(d), all.NewTimer(d)
		for _, timer := range []*Timer{a, b} {
			select {
			case <-timer.C:
			case <-time.After(5 * time.Second):
				t.Fatalf("%s: a timer outside has not fired after 5 s", name)
			}
		}
	}
}

// A bubble stops a timer of outside, or moves it to its own clock.
func TestABubbleTakesTimersOfOutside(t *testing.T) {
	all := create(t, hwheel.Options{})
	var timers [2 * gather]*Timer
	called := make(chan int, len(timers))
	for i := range timers {
		timers[i] = all.AfterFunc(time.Hour, func() { called <- i })
		if i%5 == 0 { // Some cross, and some do not.
			time.Sleep(10 * time.Microsecond)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		for i, timer := range timers {
			if was := i%2 == 0 && timer.Reset(time.Minute) || i%2 == 1 && timer.Stop(); !was {
				t.Error(i, "was not pending")
			}
		}
		time.Sleep(2 * time.Minute)
	})
	for range len(timers) / 2 {
		if i := <-called; i%2 != 0 {
			t.Error(i, "was stopped")
		}
	}
	fires(t, all, "stopped inside")
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if stats, err := all.Stats(); err == nil && stats.Pending == 0 {
			break
		} else if time.Now().After(end) {
			t.Fatal("still pending in the wheel:", stats.Pending, err)
		}
	}
}

// Limits and Close are the same in a bubble.
func TestABubbleHasLimits(t *testing.T) {
	all := create(t, hwheel.Options{MaxTimers: 2})
	called := false
	synctest.Test(t, func(t *testing.T) {
		first, second := all.AfterFunc(time.Minute, func() {}), all.NewTicker(time.Minute)
		third := all.NewTimer(time.Minute)
		if first.Err() != nil || second.Err() != nil || third.Err() == nil {
			t.Error(first.Err(), second.Err(), third.Err())
		}
		first.Stop()
		second.Stop()
		if third.Reset(time.Minute); third.Err() != nil {
			t.Error(third.Err())
		}
		last := all.AfterFunc(time.Second, func() { called = true })
		all.Close()
		time.Sleep(time.Hour)
		silent(t, third.C)
		if last.Stop() || third.Stop() || last.Reset(1) || last.Err() != hwheel.ErrClosed {
			t.Error("pending on a closed wheel:", last.Err())
		}
	})
	if called {
		t.Error("called after Close")
	}
}
