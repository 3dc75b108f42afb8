// Package context has the names of package context, with our deadlines.
package context

import (
	std "context"
	"suites/time"
	"sync/atomic"
	_ "unsafe" // for go:linkname
)

type (
	Context         = std.Context
	CancelFunc      = std.CancelFunc
	CancelCauseFunc = std.CancelCauseFunc
)

var (
	WithTimeout       = time.All.WithTimeout
	WithDeadline      = time.All.WithDeadline
	Canceled          = std.Canceled
	DeadlineExceeded  = std.DeadlineExceeded
	Background        = std.Background
	TODO              = std.TODO
	WithCancel        = std.WithCancel
	WithCancelCause   = std.WithCancelCause
	WithDeadlineCause = time.All.WithDeadlineCause
	WithTimeoutCause  = time.All.WithTimeoutCause
	WithValue         = std.WithValue
	WithoutCancel     = std.WithoutCancel
	AfterFunc         = std.AfterFunc
	Cause             = std.Cause
)

// Goroutines is how many package context has begun.
//
//go:linkname Goroutines context.goroutines
var Goroutines atomic.Int32
