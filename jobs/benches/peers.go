// Runs jobs that do nothing with River, or with hwheel's take(), and prints how late they were
// and how long they took, as JSON. Each has up to ten connections.
// usage: peers river|take URL JOBS SECONDS
// The jobs are due evenly over the seconds, or all at once if that is 0.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

var (
	mutex sync.Mutex
	late  []float64 // milliseconds
)

func handle(due time.Time) {
	mutex.Lock()
	defer mutex.Unlock()
	late = append(late, float64(time.Since(due))/1e6)
}

func handled() int {
	mutex.Lock()
	defer mutex.Unlock()
	return len(late)
}

func check[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

type Args struct{ Due time.Time }

func (Args) Kind() string { return "note" }

type worker struct{ river.WorkerDefaults[Args] }

func (worker) Work(_ context.Context, job *river.Job[Args]) error {
	handle(job.Args.Due)
	return nil
}

// A system inserts jobs with due times, starts, and counts what is left.
type system struct {
	insert func([]time.Time)
	start  func()
	left   string
}

func newRiver(ctx context.Context, pool *pgxpool.Pool) system {
	driver := riverpgxv5.New(pool)
	check(check(rivermigrate.New(driver, nil)).Migrate(ctx, rivermigrate.DirectionUp, nil))
	workers := river.NewWorkers()
	river.AddWorker(workers, worker{})
	client := check(river.NewClient(driver, &river.Config{
		// It has no option to look for jobs that become due more often than every 5 s.
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 100 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 500}}, Workers: workers,
	}))
	return system{
		insert: func(dues []time.Time) {
			jobs := make([]river.InsertManyParams, len(dues))
			for i, due := range dues {
				jobs[i] = river.InsertManyParams{Args: Args{due}}
				if time.Until(due) > 0 {
					jobs[i].InsertOpts = &river.InsertOpts{ScheduledAt: due}
				}
			}
			check(client.InsertManyFast(ctx, jobs))
		},
		start: func() { check(0, client.Start(ctx)) },
		left:  "SELECT count(*) FROM river_job WHERE finalized_at IS NULL",
	}
}

func newTake(ctx context.Context, pool *pgxpool.Pool, url string) system {
	number := 0
	return system{
		insert: func(dues []time.Time) {
			keys, payloads := make([]string, len(dues)), make([]string, len(dues))
			for i, due := range dues {
				number++
				keys[i], payloads[i] = fmt.Sprint("k", number), string(check(json.Marshal(due)))
			}
			check(pool.Exec(ctx, "SELECT hwheel.schedule_many($1, $2, $3::text[]::jsonb[], queue => 'note')", keys, dues, payloads))
		},
		start: func() {
			for range 4 {
				go take(ctx, check(pgx.Connect(ctx, url)))
			}
		},
		left: "SELECT count(*) FROM hwheel.job",
	}
}

func take(ctx context.Context, conn *pgx.Conn) {
	check(conn.Exec(ctx, "SELECT hwheel.listen('note')"))
	for {
		rows := check(conn.Query(ctx, "SELECT id, lease, payload FROM hwheel.take('note', 500)"))
		var ids, leases []int64
		for rows.Next() {
			var id, lease int64
			var due time.Time
			check(0, rows.Scan(&id, &lease, &due))
			handle(due)
			ids, leases = append(ids, id), append(leases, lease)
		}
		check(0, rows.Err())
		if len(ids) > 0 {
			check(conn.Exec(ctx, "SELECT count(*) FROM hwheel.done_many($1, $2)", ids, leases))
			continue
		}
		wait, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := conn.WaitForNotification(wait)
		if wait.Err() == nil {
			check(0, err)
		}
		cancel()
	}
}

func main() {
	ctx, url := context.Background(), os.Args[2]
	jobs, seconds := check(strconv.Atoi(os.Args[3])), check(strconv.ParseFloat(os.Args[4], 64))
	config := check(pgxpool.ParseConfig(url))
	config.MaxConns = 10
	pool := check(pgxpool.NewWithConfig(ctx, config))
	var s system
	if os.Args[1] == "river" {
		s = newRiver(ctx, pool)
	} else {
		s = newTake(ctx, pool, url)
	}
	number := func(sql string) (n int) {
		check(0, pool.QueryRow(ctx, sql).Scan(&n))
		return n
	}
	commits := func() int {
		time.Sleep(11 * time.Second) // The server counts the calls of a session up to ten seconds later.
		return number("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
	}
	first := time.Now().Add(-time.Second)
	if seconds > 0 {
		first = time.Now().Add(30 * time.Second)
	}
	for from := 0; from < jobs; from += 5000 {
		dues := make([]time.Time, min(5000, jobs-from))
		for i := range dues {
			dues[i] = first.Add(time.Duration(float64(from+i) * seconds * 1e9 / float64(jobs)))
		}
		s.insert(dues)
	}
	if seconds > 0 && time.Until(first) < 13*time.Second {
		log.Fatal("the machine is too slow")
	}
	before, asked, after := 0, 0, 0
	if seconds > 0 {
		before = commits()
	}
	began := time.Now()
	s.start()
	for handled() < jobs || number(s.left) > 0 {
		time.Sleep(100 * time.Millisecond)
		asked++
		if time.Since(began).Seconds() > seconds+300 {
			log.Fatalf("only %d of %d", handled(), jobs)
		}
	}
	took := float64(time.Since(began)) / 1e6
	if seconds > 0 {
		after = commits() - asked
	}
	mutex.Lock()
	slices.Sort(late)
	at := func(part float64) float64 { return late[min(jobs-1, int(part*float64(jobs)))] }
	fmt.Printf(`{"done":%d,"p50":%f,"p99":%f,"worst":%f,"took":%f,"queries":%d}`+"\n",
		len(late), at(0.5), at(0.99), at(1), took, after-before)
}
