package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func (w *Worker) repeat(work func() error, isOver func() bool) {
	delay := 100 * time.Millisecond
	for !isOver() {
		began := time.Now()
		err := work()
		if err == nil {
			delay = 100 * time.Millisecond
			continue
		}
		if isOver() {
			return
		}
		w.options.Log.Warn("hwheel: trying again", "error", err)
		if delay = min(2*delay, look); time.Since(began) > look {
			delay = 100 * time.Millisecond
		}
		time.Sleep(time.Duration(float64(delay) * (0.5 + rand.Float64())))
		w.wakeUp()
	}
}

func (w *Worker) dial(ctx context.Context) (*pgx.Conn, error) {
	config := w.pool.Config().ConnConfig
	if config.ConnectTimeout == 0 { // A host that never answers would keep the others out.
		config.ConnectTimeout = 10 * time.Second
	}
	return pgx.ConnectConfig(ctx, config)
}

func (w *Worker) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := w.dial(ctx)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if _, err = conn.Exec(ctx, session); err != nil {
			_ = conn.Close(ctx)
		}
	}
	return conn, err
}

// start makes the connection for calls. A pooler in transaction mode lets clients take turns in its
// sessions, and a setting of a worker would stay there for the next client. Two connections show this:
// without a pooler the server has a process for each, which stays the same. Both are made at once,
// because a host may not answer. The second one is not worth an error: it may be one too many.
func (w *Worker) start(ctx context.Context) (err error) {
	other := make(chan *pgx.Conn)
	go func() {
		conn, _ := w.dial(ctx) // It is nil after an error.
		other <- conn
	}()
	here, err := w.dial(ctx)
	there := <-other
	if there != nil {
		defer there.Close(context.Background())
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = here.Close(context.Background())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if there != nil {
		if isShared, err := isShared(ctx, here, there); err != nil {
			return err
		} else if isShared {
			return errors.New("worker: a pooler in transaction mode is before the database: a worker needs session mode, or none")
		}
	}
	if _, err = here.Exec(ctx, session); err == nil {
		w.control = here
	}
	return err
}

// isShared says whether connections take turns in sessions. They may do so in any order, so one of them
// keeps its session for a while.
func isShared(ctx context.Context, here, there *pgx.Conn) (bool, error) {
	mine, err := process(ctx, here)
	other, err2 := process(ctx, there)
	if err := errors.Join(err, err2); err != nil {
		return false, err
	}
	isShared := mine == other
	for n := 0; n < 3 && !isShared; n++ {
		tx, err := here.Begin(ctx)
		if err != nil {
			return false, err
		}
		during, err := process(ctx, here)
		meanwhile, err2 := process(ctx, there)
		err3 := tx.Commit(ctx)
		after, err4 := process(ctx, here)
		if err := errors.Join(err, err2, err3, err4); err != nil {
			return false, err
		}
		isShared = during != mine || meanwhile != other || after != mine
	}
	return isShared, nil
}

// process returns the number of the process of the server.
func process(ctx context.Context, conn *pgx.Conn) (number int, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&number)
	return number, err
}

func call[T any](ctx context.Context, w *Worker, statement string, values ...any) (rows []T, err error) {
	if w.control == nil || w.control.IsClosed() {
		if w.control, err = w.connect(ctx); err != nil {
			w.control = nil
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, _ := w.control.Query(ctx, statement, values...)
	if rows, err = pgx.CollectRows(answer, scan[T]); err != nil && !is(err, "HW003") && !is(err, "55P03") {
		_ = w.control.Close(ctx) // Another server may be the right one.
	}
	return rows, err
}

// scan reads a row into a structure, or its only column.
func scan[T any](row pgx.CollectableRow) (value T, err error) {
	if _, ok := any(value).(string); ok {
		return pgx.RowTo[T](row)
	}
	if any(value) == nil {
		return value, nil
	}
	return pgx.RowToStructByPos[T](row)
}

func is(err error, code string) bool {
	e := (*pgconn.PgError)(nil)
	return errors.As(err, &e) && strings.HasPrefix(e.Code, code)
}

// isRefusal says whether the database works, and refuses what the call wants for one of its jobs.
func isRefusal(err error) bool {
	for _, trouble := range []string{"08", "25", "28", "3D", "53", "57", "58", "XX"} {
		if is(err, trouble) {
			return false
		}
	}
	return is(err, "")
}

func (w *Worker) listen(ctx context.Context) error {
	conn, err := w.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	for _, q := range w.queues {
		if _, err := conn.Exec(ctx, "SELECT hwheel.listen($1)", q.name); err != nil {
			return err
		}
	}
	w.mu.Lock()
	w.nextLook, w.nextBeat = time.Time{}, time.Time{}
	w.mu.Unlock()
	w.wakeUp()
	for {
		notice, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		w.hear(strings.TrimPrefix(notice.Channel, "hwheel:"), notice.Payload)
	}
}

func (w *Worker) hear(name, payload string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id, isCancel := strings.CutPrefix(payload, "cancel "); isCancel {
		for number := range w.runs {
			if fmt.Sprint(number) == id {
				w.nextBeat = time.Time{}
				w.wakeUp()
			}
		}
		return
	}
	for _, q := range w.queues {
		if q.name == name {
			q.mayHaveMore = true
			w.wakeUp()
		}
	}
}

// turn waits for something to do, and does it.
func (w *Worker) turn(takes func() bool) error {
	w.mu.Lock()
	next := w.nextLook
	if w.nextBeat.Before(next) {
		next = w.nextBeat
	}
	w.mu.Unlock()
	timer := time.NewTimer(time.Until(next))
	select {
	case <-w.wake:
	case <-timer.C:
	}
	timer.Stop()
	// First, so that no report delays it.
	if err := w.beat(); err != nil {
		return err
	}
	reported, err := w.report()
	if err != nil {
		return err
	}
	isIdle := reported == 0
	w.mu.Lock()
	if isTime := !time.Now().Before(w.nextLook); isTime {
		w.nextLook = time.Now().Add(look)
		for _, q := range w.queues {
			q.mayHaveMore = true
		}
	}
	w.mu.Unlock()
	if takes() { // Asked now: the turn may have waited for long.
		for _, q := range w.queues {
			first, err := w.take(q, q.concurrency-q.running)
			if err != nil {
				return err
			}
			isIdle = isIdle && first == nil
		}
	}
	if isIdle {
		time.Sleep(10 * time.Millisecond) // Anybody may send notifications.
	}
	return nil
}

type row struct {
	ID, Lease   int64
	Key         string
	Due         time.Time
	Payload     *string
	Attempt     int
	Traceparent string
	Timeout     float64
}

func (w *Worker) take(q *queue, room int) (first *run, err error) {
	w.mu.Lock()
	isOver := !q.mayHaveMore || room < 1 || w.quiet.Load()
	if !isOver {
		q.mayHaveMore = false
	}
	w.mu.Unlock()
	if isOver {
		return nil, nil
	}
	began := time.Now()
	rows, err := call[row](context.Background(), w, take, q.name, room, w.options.Lease.Seconds())
	w.mu.Lock()
	defer w.mu.Unlock()
	q.mayHaveMore = q.mayHaveMore || err != nil || len(rows) >= room
	for _, t := range rows {
		job := &Job{ID: t.ID, Lease: t.Lease, Key: t.Key, Queue: q.name, Due: t.Due, Attempt: t.Attempt,
			Traceparent: t.Traceparent, worker: w}
		if t.Payload != nil {
			job.Payload = []byte(*t.Payload)
		}
		r := &run{Job: job, queue: q, deadline: began.Add(time.Duration(t.Timeout * float64(time.Second)))}
		r.ctx, r.cancel = context.WithCancelCause(context.Background())
		if old := w.runs[r.ID]; old != nil {
			old.stop(ErrLost)
		}
		w.runs[r.ID] = r
		q.running++
		r.leaseUntil(began.Add(w.options.Lease))
		if w.ends {
			r.stop(ErrEnds)
		}
		go w.run(r)
		if first == nil {
			first = r
		}
	}
	return first, err
}

func (w *Worker) run(r *run) {
	err := errors.New("the function has ended its goroutine")
	defer func() { // Also for runtime.Goexit.
		r.err = err
		r.statement, r.values = r.report()
		if err != nil && (r.statement == fail || r.committed.Load()) {
			w.options.Log.Warn("hwheel: an attempt failed", "queue", r.Queue, "key", r.Key,
				"attempt", r.Attempt, "error", textOf(err.Error))
		}
		w.mu.Lock()
		r.timer.Stop()
		r.over = true
		w.ended = append(w.ended, r)
		w.mu.Unlock()
		w.wakeUp()
	}()
	err = r.call()
}

// report ends the jobs whose functions are over. One that somebody has locked, or whose end the
// database refuses, has to wait.
func (w *Worker) report() (int, error) {
	var batch, done []*run
	w.mu.Lock()
	for _, r := range w.ended {
		if !time.Now().Before(r.again) {
			batch = append(batch, r)
		}
	}
	w.mu.Unlock()
	for _, r := range batch {
		if r.err == nil && !r.committed.Load() {
			done = append(done, r)
		}
	}
	if len(done) > 1 {
		ids, leases := numbers(done)
		rows, err := call[string](context.Background(), w, doneOne, ids, leases)
		if err != nil && !isRefusal(err) {
			return 0, err
		}
		isDone := map[string]bool{}
		for _, id := range rows {
			isDone[id] = true
		}
		for _, r := range done {
			if err != nil { // One by one.
				break
			} else if isDone[fmt.Sprint(r.ID)] {
				w.free(r, "done")
			} else {
				w.free(r, "lost")
			}
		}
	}
	for _, r := range batch {
		if r.outcome == "" {
			if err := w.reportOne(r); err != nil {
				return 0, err
			}
		}
	}
	return len(batch), nil
}

func (w *Worker) reportOne(r *run) error {
	statement, values := r.statement, r.values
	if r.committed.Load() {
		w.free(r, "done")
		return nil
	}
	rows, err := call[string](context.Background(), w, statement, values...)
	if is(err, "22") && statement == later { // It is too long.
		statement, values = fail, []any{r.ID, r.Lease, toASCII(textOf(r.err.Error)), nil, false}
		rows, err = call[string](context.Background(), w, statement, values...)
	} else if is(err, "22") && statement == fail { // The database lacks a character, or the time is too long.
		text := toASCII(fmt.Sprint(values[2]))
		rows, err = call[string](context.Background(), w, statement, r.ID, r.Lease, text, values[3], values[4])
		if is(err, "22") {
			rows, err = call[string](context.Background(), w, statement, r.ID, r.Lease, text, nil, values[4])
		}
	}
	switch {
	case is(err, "HW003") || err == nil && len(rows) == 0:
		w.free(r, "lost")
	case isRefusal(err):
		if !is(err, "55P03") {
			w.options.Log.Warn("hwheel: the end of a job is refused", "queue", r.Queue, "key", r.Key, "error", err)
		}
		r.again = time.Now().Add(again)
		time.AfterFunc(again, w.wakeUp)
	case err != nil:
		return err
	case statement == doneOne:
		w.free(r, "done")
	default:
		w.free(r, rows[0])
	}
	return nil
}

func (w *Worker) free(r *run, outcome string) {
	// A function may have ended its job itself, by hwheel.done().
	if outcome == "lost" && (r.why() != nil || r.err != nil) {
		w.options.Log.Warn("hwheel: the job has ended without this run", "queue", r.Queue, "key", r.Key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.ended {
		if w.ended[i] == r {
			w.ended = append(w.ended[:i], w.ended[i+1:]...)
			break
		}
	}
	if w.runs[r.ID] == r {
		delete(w.runs, r.ID)
	}
	r.cancel(nil)
	r.outcome = outcome
	r.queue.running--
}

func numbers(runs []*run) (ids, leases []int64) {
	ids, leases = []int64{}, []int64{}
	for _, r := range runs {
		ids, leases = append(ids, r.ID), append(leases, r.Lease)
	}
	return ids, leases
}

type verdict struct {
	ID      int64
	Outcome string
}

func (w *Worker) extend(ctx context.Context, runs []*run) ([]verdict, error) {
	ids, leases := numbers(runs)
	return call[verdict](ctx, w, extend, ids, leases, w.options.Lease.Seconds())
}

// beat extends the leases, and finds out which have ended.
func (w *Worker) beat() error {
	began := time.Now()
	var runs []*run
	w.mu.Lock()
	isEarly := began.Before(w.nextBeat)
	for _, r := range w.runs {
		if !r.over && !r.committed.Load() && r.why() == nil {
			runs = append(runs, r)
		}
	}
	w.mu.Unlock()
	if isEarly {
		return nil
	}
	outcomes := map[int64]string{}
	if len(runs) > 0 {
		verdicts, err := w.extend(context.Background(), runs)
		if err != nil {
			return err
		}
		for _, v := range verdicts {
			outcomes[v.ID] = v.Outcome
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nextBeat = began.Add(w.options.Lease / 3)
	for _, r := range runs {
		switch outcome := outcomes[r.ID]; {
		case outcome == "cancelled":
			r.stop(ErrCancelled)
		case outcome != "extended" && outcome != "busy":
			r.stop(ErrLost)
		case !r.over && r.why() == nil:
			r.leaseUntil(began.Add(w.options.Lease))
		}
	}
	return nil
}
