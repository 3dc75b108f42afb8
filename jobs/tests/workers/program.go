// The worker of the tests, in Go. See program.py.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hwheel/hwheel/jobs/workers/go"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

type unspeakable struct{}

func (unspeakable) Error() string { panic("no text") }

var odd = []func() error{
	func() error { panic("a text") },
	func() error { panic(nil) },
	func() error { panic(unspeakable{}) },
	func() error { return unspeakable{} },
	func() error { runtime.Goexit(); return nil },
	func() error { var m map[string]int; m["a"] = 1; return nil },
	func() error { var p *int; *p = 1; return nil },
	func() error { return errors.New("\x00 \xff \U0001f600" + strings.Repeat("x", 20000)) },
	func() error { return worker.Snooze(-time.Second) },
	func() error { return worker.Snooze(1 << 62) },
	func() error { return worker.RetryAfter(-time.Second, errors.New("soon")) },
	func() error { return fmt.Errorf("wrapped: %w", worker.Final(errors.New("no more"))) },
	func() error { return context.Canceled },
	func() error { var e *unspeakable; return e },
}

func say(what string, job *worker.Job, more ...any) {
	fmt.Println(append([]any{what, job.Key, job.Attempt}, more...)...)
}

func seconds(name string) time.Duration {
	if s, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil && s > 0 {
		return time.Duration(s * float64(time.Second))
	} else if err == nil {
		return -1
	}
	return 0
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = "hwheel-worker"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	w := worker.New(pool, worker.Options{Lease: seconds("LEASE"), Grace: seconds("GRACE")})
	insert := func(tx pgx.Tx, job *worker.Job) error {
		_, err := tx.Exec(ctx, "INSERT INTO sent (key) VALUES ($1)", job.Key)
		return err
	}
	w.Handle(os.Args[1], 10, func(ctx context.Context, job *worker.Job) error {
		if string(job.Payload) == `"fail"` {
			return errors.New("it does not work")
		}
		return job.InTx(ctx, func(tx pgx.Tx) error { return insert(tx, job) })
	})
	w.Handle("plain", 5, func(ctx context.Context, job *worker.Job) error {
		if string(job.Payload) == `"quiet"` {
			w.Quiet()
		}
		say("begin", job)
		time.Sleep(20 * time.Millisecond)
		return nil
	})
	w.Handle("slow", 5, func(ctx context.Context, job *worker.Job) error {
		say("begin", job)
		var wait float64
		if err := json.Unmarshal(job.Payload, &wait); err != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(wait * float64(time.Second))):
			say("end", job)
			return nil
		case <-ctx.Done():
			say("stop", job, context.Cause(ctx))
			return ctx.Err()
		}
	})
	w.Handle("killed", 1, func(ctx context.Context, job *worker.Job) error {
		return job.InTx(ctx, func(tx pgx.Tx) error {
			if err := insert(tx, job); err != nil || job.Attempt > 1 {
				return err
			}
			_, _ = tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return nil
		})
	})
	w.Handle("deaf", 1, func(ctx context.Context, job *worker.Job) error {
		say("begin", job)
		select {}
	})
	w.Handle("snooze", 1, func(ctx context.Context, job *worker.Job) error {
		say("begin", job)
		var path string
		if err := json.Unmarshal(job.Payload, &path); err != nil {
			return err
		}
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		return worker.Snooze(200 * time.Millisecond)
	})
	w.Handle("odd", 20, func(ctx context.Context, job *worker.Job) error {
		n, err := strconv.Atoi(string(job.Payload))
		if err != nil {
			return err
		}
		return odd[n]()
	})
	switch {
	case len(os.Args) > 2 && os.Args[2] == "odd":
		fmt.Println(len(odd))
	case len(os.Args) > 2:
		results, err := w.Drain(ctx, 1000)
		for _, r := range results {
			if r.Err == nil {
				fmt.Println(r.Key, r.Attempt, r.Outcome, "sent")
			} else {
				fmt.Println(r.Key, r.Attempt, r.Outcome, r.Err)
			}
		}
		if err != nil {
			log.Fatal(err)
		}
	default:
		if err := w.Run(ctx); err != nil {
			log.Fatal(err)
		}
	}
}
