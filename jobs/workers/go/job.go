package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Why the context of a job is cancelled: see context.Cause.
var (
	ErrLost      = errors.New("the lease has ended")
	ErrCancelled = errors.New("the job is cancelled")
	ErrTimeout   = errors.New("the run took longer than the timeout of the job")
	ErrEnds      = errors.New("the worker ends")
)

// A Job is an attempt at a job.
type Job struct {
	ID, Lease   int64
	Key, Queue  string
	Due         time.Time
	Payload     json.RawMessage // nil: it has none
	Attempt     int
	Traceparent string

	worker    *Worker
	committed atomic.Bool
}

// InTx calls use with a transaction of the pool, whose commit ends the job. If the lease has
// ended the transaction fails with HW003. An error of use rolls it back.
func (job *Job) InTx(ctx context.Context, use func(tx pgx.Tx) error) error {
	tx, err := job.worker.pool.Begin(ctx)
	for range [8]struct{}{} { // Connections of the pool may be lost.
		if err == nil || !pgconn.SafeToRetry(err) {
			break
		}
		tx, err = job.worker.pool.Begin(ctx)
	}
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), last)
		defer cancel()
		_ = tx.Rollback(end)
	}()
	if err = use(tx); err != nil {
		return err
	}
	if _, err = tx.Exec(ctx, "SELECT hwheel.done($1, $2)", job.ID, job.Lease); err != nil {
		return err
	}
	if err = tx.Commit(ctx); err == nil {
		job.committed.Store(true)
	}
	return err
}

type snooze struct{ after time.Duration }

func (s snooze) Error() string { return fmt.Sprintf("run the job again after %v", s.after) }

// Snooze is an error that runs the job again after this time. No attempt is counted.
func Snooze(after time.Duration) error { return snooze{after} }

type failure struct {
	error
	retryAfter *float64
	final      bool
}

func (f failure) Unwrap() error { return f.error }

// Final is an error after which there is no other attempt.
func Final(err error) error { return failure{err, nil, true} }

// RetryAfter is an error after which the next attempt is after this time.
func RetryAfter(after time.Duration, err error) error {
	seconds := after.Seconds()
	return failure{err, &seconds, false}
}

// A run is a job and what the worker knows of it.
type run struct {
	*Job
	queue    *queue
	ctx      context.Context
	cancel   context.CancelCauseFunc
	deadline time.Time
	timer    *time.Timer
	err      error
	over     bool

	// The call that ends the job, and what it has come to.
	statement string
	values    []any
	again     time.Time // When it is made, if that was not possible before.
	outcome   string
}

func (r *run) why() error {
	if r.ctx.Err() == nil {
		return nil
	}
	return context.Cause(r.ctx)
}

func (r *run) stop(why error) {
	if !r.committed.Load() {
		r.cancel(why)
	}
}

func (r *run) leaseUntil(end time.Time) {
	if r.timer != nil {
		r.timer.Stop()
	}
	why := ErrLost
	if !end.Before(r.deadline) {
		end, why = r.deadline, ErrTimeout
	}
	r.timer = time.AfterFunc(time.Until(end), func() { r.stop(why) })
}

// call runs the function of a job. Whatever it does is an error at most.
func (r *run) call() (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %s\n%s", textOf(func() string { return fmt.Sprint(p) }), debug.Stack())
		}
	}()
	err = r.queue.handle(r.ctx, r.Job)
	returned = true
	return err
}

// report is the call that ends the job.
func (r *run) report() (string, []any) {
	var s snooze
	f := failure{}
	switch {
	case r.err == nil || r.committed.Load():
		return doneOne, []any{[]int64{r.ID}, []int64{r.Lease}}
	case errors.As(r.err, &s):
		return later, []any{r.ID, r.Lease, s.after.Seconds()}
	case r.why() == ErrEnds:
		return later, []any{r.ID, r.Lease, 0.0}
	}
	errors.As(r.err, &f)
	text := textOf(r.err.Error)
	if why := r.why(); why != nil {
		if text == context.Canceled.Error() || text == why.Error() {
			text = why.Error()
		} else {
			text = why.Error() + ": " + text
		}
	}
	return fail, []any{r.ID, r.Lease, text, f.retryAfter, f.final}
}

// textOf is what the database can store of an error.
func textOf(text func() string) (s string) {
	defer func() {
		if recover() != nil {
			s = "an error without a text"
		}
	}()
	s = strings.ReplaceAll(strings.ToValidUTF8(text(), "\uFFFD"), "\x00", `\0`)
	if runes := []rune(s); len(runes) > 10000 {
		s = string(runes[:10000])
	}
	return s
}

func toASCII(text string) string {
	quoted := strconv.QuoteToASCII(text)
	return quoted[1 : len(quoted)-1]
}
