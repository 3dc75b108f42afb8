// Runs jobs that an application takes from hwheel. Copy Work and run; they need pgx 5.
// As a program: DATABASE_URL=... go run take.go QUEUE
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

type Job struct {
	ID, Lease    int64
	Key, Payload string // The payload is JSON.
}
type Handler func(ctx context.Context, tx pgx.Tx, job Job) error

// Work calls handle for each job of the queue that is due. The statements of the handler and
// the end of the job are one transaction. An error rolls it back, and the job is tried again.
// All jobs that are taken together have to end within their leases.
func Work(ctx context.Context, take, effect *pgx.Conn, queue string, atMost int, handle Handler) error {
	_, err := take.Exec(ctx, "SELECT hwheel.listen($1)", queue)
	for err == nil {
		rows, _ := take.Query(ctx, "SELECT id, lease, key, coalesce(payload::text, '') FROM hwheel.take($1, $2)", queue, atMost)
		jobs, e := pgx.CollectRows(rows, pgx.RowToStructByPos[Job])
		for err = e; err == nil && len(jobs) > 0; jobs = jobs[1:] {
			err = run(ctx, effect, jobs[0], handle)
		}
		if rows.CommandTag().RowsAffected() == 0 && err == nil { // It looks by itself now and then.
			wait, cancel := context.WithTimeout(ctx, 5*time.Second)
			if _, e := take.WaitForNotification(wait); wait.Err() == nil {
				err = e
			}
			cancel()
		}
	}
	return err
}

func run(ctx context.Context, effect *pgx.Conn, job Job, handle Handler) error {
	err := pgx.BeginFunc(ctx, effect, func(tx pgx.Tx) error {
		err := handle(ctx, tx, job)
		if err == nil {
			_, err = tx.Exec(ctx, "SELECT hwheel.done($1, $2)", job.ID, job.Lease)
		}
		return err
	})
	if err != nil {
		log.Printf("job %s has failed: %v", job.Key, err)
		_, err = effect.Exec(ctx, "SELECT hwheel.fail($1, $2, $3)", job.ID, job.Lease, err.Error())
	}
	if stale := (*pgconn.PgError)(nil); errors.As(err, &stale) && stale.Code == "HW003" {
		return nil // The lease has ended: the job is not ours any more.
	}
	return err
}

func main() {
	ctx, url := context.Background(), os.Getenv("DATABASE_URL")
	take, err := pgx.Connect(ctx, url)
	effect, e := pgx.Connect(ctx, url)
	if err = errors.Join(err, e); err == nil {
		err = Work(ctx, take, effect, os.Args[1], 10, func(ctx context.Context, tx pgx.Tx, job Job) error {
			if job.Payload == `"fail"` {
				return errors.New("it does not work")
			}
			_, err := tx.Exec(ctx, "INSERT INTO sent (key) VALUES ($1)", job.Key)
			return err
		})
	}
	log.Fatal(err)
}
