// Package context has the names of package context, with our deadlines.
package context

import (
	std "context"
	"sync/atomic"
	_ "unsafe" // for go:linkname

	hwheel "github.com/hwheel/hwheel/bindings/go"
	"github.com/hwheel/hwheel/bindings/go/timers"
)

var all = func() *timers.Timers {
	all, err := timers.New(hwheel.Options{})
	if err != nil {
		panic(err)
	}
	return all
}()

type (
	Context         = std.Context
	CancelFunc      = std.CancelFunc
	CancelCauseFunc = std.CancelCauseFunc
)

var (
	WithTimeout       = all.WithTimeout
	WithDeadline      = all.WithDeadline
	Canceled          = std.Canceled
	DeadlineExceeded  = std.DeadlineExceeded
	Background        = std.Background
	TODO              = std.TODO
	WithCancel        = std.WithCancel
	WithCancelCause   = std.WithCancelCause
	WithDeadlineCause = std.WithDeadlineCause
	WithTimeoutCause  = std.WithTimeoutCause
	WithValue         = std.WithValue
	WithoutCancel     = std.WithoutCancel
	AfterFunc         = std.AfterFunc
	Cause             = std.Cause
)

// Goroutines is how many package context has begun.
//
//go:linkname Goroutines context.goroutines
var Goroutines atomic.Int32
