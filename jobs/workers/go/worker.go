// Package worker runs the jobs of hwheel's queues in functions of this program.
//
//	w := worker.New(pool, worker.Options{})
//	w.Handle("mail", 10, func(ctx context.Context, job *worker.Job) error {
//		return job.InTx(ctx, func(tx pgx.Tx) error {
//			_, err := tx.Exec(ctx, "INSERT INTO sent VALUES ($1)", job.Key)
//			return err
//		})
//	})
//	err := w.Run(ctx)
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	patience = 15 * time.Second // A call that takes longer loses its connection.
	look     = 5 * time.Second  // A worker looks though nobody wakes it: there may have been no node.
	again    = time.Second      // When a job is ended again that is locked, or whose end is refused.
	last     = 5 * time.Second  // After the contexts are cancelled, a worker waits for this time.

	session = `SET search_path = pg_catalog, pg_temp; SET lock_timeout = '100 ms';
		SET statement_timeout = '10 s'; SET idle_session_timeout = 0; SET client_encoding = utf8;
		SET default_transaction_isolation = 'read committed'`
	take = `SELECT id, lease, key, due, payload::text, attempt, coalesce(traceparent, ''),
		timeout FROM hwheel._take_for_worker($1, $2, make_interval(secs => $3))`
	extend = `SELECT id, outcome FROM hwheel.extend_many($1::bigint[], $2::bigint[],
		make_interval(secs => $3))`
	doneOne = "SELECT id::text FROM hwheel.done_many($1::bigint[], $2::bigint[]) id"
	later   = "SELECT hwheel.snooze($1, $2, make_interval(secs => $3))"
	fail    = "SELECT hwheel.fail($1, $2, $3, make_interval(secs => $4), $5)"
)

// A Handler is the function for the jobs of a queue. The job is done when it returns nil, or when
// its InTx commits. An error or a panic is an attempt that failed. Its context is cancelled when it
// has to end.
type Handler func(ctx context.Context, job *Job) error

// Options may be empty.
type Options struct {
	// A lease lasts for this time, by default 30 s. The worker extends it while the function runs,
	// up to the timeout of the job.
	Lease time.Duration
	// At the end of the worker the functions that run have this time, by default 30 s, before
	// their contexts are cancelled. Negative: none.
	Grace time.Duration
	Log   *slog.Logger
}

type queue struct {
	name        string
	concurrency int
	handle      Handler
	running     int
	mayHaveMore bool
}

// A Worker takes jobs. Its methods may be called by any goroutine.
type Worker struct {
	pool    *pgxpool.Pool
	options Options
	queues  []*queue
	control *pgx.Conn
	busy    atomic.Bool
	quiet   atomic.Bool
	wake    chan struct{}

	mu                 sync.Mutex // Guards what follows, and queue.mayHaveMore.
	runs               map[int64]*run
	ends               bool // All runs are asked to end, also those that begin.
	ended              []*run
	nextLook, nextBeat time.Time
}

// A Result is what Drain did with a job: done, retry, dead, snoozed, cancelled or lost.
type Result struct {
	Key     string
	Attempt int
	Outcome string
	Err     error
}

// New makes a worker. It makes two connections with the settings of the pool, and uses the pool for
// the transactions of jobs. A pool with several hosts needs a connect_timeout: without it a transaction
// waits for a host that never answers.
func New(pool *pgxpool.Pool, options Options) *Worker {
	if options.Lease == 0 {
		options.Lease = 30 * time.Second
	}
	if options.Grace == 0 {
		options.Grace = 30 * time.Second
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	return &Worker{pool: pool, options: options, wake: make(chan struct{}, 1), runs: map[int64]*run{}}
}

// Handle gives the jobs of a queue to a function. That many run at once, from 1 to 10000.
func (w *Worker) Handle(name string, concurrency int, handle Handler) {
	if concurrency < 1 || concurrency > 10000 || handle == nil {
		panic("worker: a queue needs a function, and a concurrency from 1 to 10000")
	}
	for _, q := range w.queues {
		if q.name == name {
			panic("worker: the queue " + name + " has a function already")
		}
	}
	w.queues = append(w.queues, &queue{name: name, concurrency: concurrency, handle: handle})
}

// Quiet makes the worker take no more jobs. What runs goes on.
func (w *Worker) Quiet() { w.quiet.Store(true) }

// Run runs jobs until the context is done. Then it waits for the functions that run. It returns an
// error if it cannot work when it starts, or if functions do not end.
func (w *Worker) Run(ctx context.Context) error {
	if len(w.queues) == 0 {
		return errors.New("worker: no queue has a function")
	}
	if err := w.begin(); err != nil {
		return err
	}
	defer w.close()
	if err := w.start(ctx); err != nil {
		return err
	}
	names := make([]string, len(w.queues))
	for i, q := range w.queues {
		names[i] = q.name
	}
	if _, err := call[any](ctx, w, "SELECT hwheel._check_queue(name) FROM unnest($1::text[]) name", names); err != nil {
		return err
	}
	// A role without the rights ends here.
	if _, err := w.extend(ctx, nil); err != nil {
		return err
	}
	listening, stopListening := context.WithCancel(context.Background())
	defer stopListening()
	go w.repeat(func() error { return w.listen(listening) }, func() bool { return listening.Err() != nil })

	gaveUp := atomic.Bool{}
	over, ended := make(chan struct{}), make(chan struct{})
	defer func() { close(over); <-ended }()
	go func() {
		defer close(ended)
		select {
		case <-over:
			return
		case <-ctx.Done():
			w.wakeUp()
		}
		select {
		case <-over:
			return
		case <-time.After(w.options.Grace):
			w.stopAll()
		}
		select {
		case <-over:
		case <-time.After(last):
			gaveUp.Store(true)
			w.wakeUp()
		}
	}()
	w.repeat(func() error { return w.turn(func() bool { return ctx.Err() == nil }) }, func() bool {
		return ctx.Err() != nil && (gaveUp.Load() || w.isIdle())
	})
	var left []string
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		left = append(left, r.Key)
	}
	if left != nil {
		return fmt.Errorf("worker: these jobs do not end: %s", strings.Join(left, ", "))
	}
	return nil
}

// Drain is for tests. It runs the jobs that are due, one after the other, until none is due or that
// many have run. It needs no node.
func (w *Worker) Drain(ctx context.Context, limit int) (results []Result, err error) {
	if err = w.begin(); err != nil {
		return nil, err
	}
	defer w.close()
	if err = w.start(ctx); err != nil {
		return nil, err
	}
	for len(results) < limit {
		var r *run
		for _, q := range w.queues {
			w.mu.Lock()
			q.mayHaveMore = true
			w.mu.Unlock()
			if r, err = w.take(q, 1); r != nil || err != nil {
				break
			}
		}
		if r == nil {
			return results, err
		}
		w.repeat(func() error { return w.turn(func() bool { return false }) }, func() bool { return r.outcome != "" || ctx.Err() != nil })
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		results = append(results, Result{r.Key, r.Attempt, r.outcome, r.err})
	}
	return results, nil
}

func (w *Worker) begin() error {
	if !w.busy.CompareAndSwap(false, true) {
		return errors.New("worker: it runs already")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = false
	return nil
}

func (w *Worker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Worker) isIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.runs) == 0
}

// stopAll asks all runs to end, also those of a take that is under way.
func (w *Worker) stopAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = true
	for _, r := range w.runs {
		r.stop(ErrEnds)
	}
}

func (w *Worker) close() {
	defer w.busy.Store(false)
	w.stopAll()
	if w.control != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.control.Close(ctx)
	}
}
