// Package time has the names of package time that its tests use, with our timers.
package time

import (
	"syscall"
	std "time"

	hwheel "github.com/hwheel/hwheel/bindings/go"
	"github.com/hwheel/hwheel/bindings/go/timers"
)

// All has the timers of the tests, for package context too. Some tests wait for a million
// timers, one after another: so ticks are short.
var All = func() *timers.Timers {
	all, err := timers.New(hwheel.Options{Tick: 10 * std.Microsecond})
	if err != nil {
		panic(err)
	}
	return all
}()

type (
	Duration = std.Duration
	Time     = std.Time
	Timer    = timers.Timer
	Ticker   = timers.Ticker
)

const (
	Nanosecond  = std.Nanosecond
	Microsecond = std.Microsecond
	Millisecond = std.Millisecond
	Second      = std.Second
	Minute      = std.Minute
	Hour        = std.Hour
)

var (
	AfterFunc = All.AfterFunc
	NewTimer  = All.NewTimer
	After     = All.After
	Sleep     = All.Sleep
	NewTicker = All.NewTicker
	Tick      = All.Tick
	Now       = std.Now
	Since     = std.Since
	Until     = std.Until
	Unix      = std.Unix
)

// Interrupt is a signal, as in package time.
func Interrupt() {
	syscall.Kill(syscall.Getpid(), syscall.SIGCHLD)
}

type setting struct{}

func (setting) Value() string { return "0" }

// AsynctimerChan is a setting of the runtime that our timers do not have.
var AsynctimerChan setting

// CheckRuntimeTimerPeriodOverflow belongs to a test that is not applicable.
func CheckRuntimeTimerPeriodOverflow() {
	panic("a function of package time")
}
