// Go's runtime timers under the workloads of docs/PERFORMANCE.md, with the
// same pseudo-random sequence as benches/bench.h.
//
// A timer of time.AfterFunc needs no channel and no goroutine until it fires;
// Reset on it is allowed whether or not it is pending. Every call reads the
// real clock, which cannot be driven by hand: in "refresh" time passes by
// itself, and of "cycle" there is the arming alone.
package main

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	longest = 60 * uint64(time.Second)
	seed    = 0x9e3779b97f4a7c15
	// A fifth of what the wheels in C do: SLOW in workloads.c.
	ops         = 400000
	connections = 100000
	constant    = 30 * time.Second
)

type rng uint64

func (r *rng) below(n uint64) uint64 {
	*r ^= *r << 13
	*r ^= *r >> 7
	*r ^= *r << 17
	high, _ := bits.Mul64(uint64(*r), n)
	return high
}

func (r *rng) delay() time.Duration {
	return time.Millisecond + time.Duration(r.below(longest-uint64(time.Millisecond)))
}

func figure(name string, value float64) {
	fmt.Printf("%s %.4f\n", name, value)
}

func nsEach(since time.Time, times int) float64 {
	return float64(time.Since(since)) / float64(times)
}

var fired uint64

func fire() {
	atomic.AddUint64(&fired, 1)
}

func armed(n int, delay func() time.Duration) []*time.Timer {
	timers := make([]*time.Timer, n)
	for i := range timers {
		timers[i] = time.AfterFunc(delay(), fire)
	}
	return timers
}

func halfMinute() time.Duration {
	return constant
}

// Each thread works on timers of its own.
func churn(n, threads int, delay func() time.Duration, operation func(*time.Timer, *rng)) {
	var all [][]*time.Timer
	for i := 0; i < threads; i++ {
		all = append(all, armed(n, delay))
	}
	var done sync.WaitGroup
	start := time.Now()
	for i := 0; i < threads; i++ {
		done.Add(1)
		go func(timers []*time.Timer, r rng) {
			for i := 0; i < ops; i++ {
				operation(timers[r.below(uint64(n))], &r)
			}
			done.Done()
		}(all[i], rng(seed+uint64(i)))
	}
	done.Wait()
	figure("ns", nsEach(start, ops*threads))
}

func pair(t *time.Timer, r *rng) {
	t.Stop()
	t.Reset(r.delay())
}

func move(t *time.Timer, r *rng) {
	t.Reset(r.delay())
}

func refresh(t *time.Timer, r *rng) {
	t.Reset(constant)
}

func armAndCancel(t *time.Timer, r *rng) {
	t.Reset(constant)
	t.Stop()
}

// Lateness in nanoseconds, below zero if early.
func lateness() {
	const n = 1000
	var r rng = seed
	var done sync.WaitGroup
	var late [n]float64

	done.Add(n)
	for i := 0; i < n; i++ {
		i := i
		d := time.Millisecond + time.Duration(r.below(uint64(time.Second-time.Millisecond)))
		due := time.Now().Add(d)
		time.AfterFunc(d, func() {
			late[i] = float64(time.Since(due))
			done.Done()
		})
	}
	done.Wait()
	sort.Float64s(late[:])
	figure("min", late[0])
	for _, q := range []struct {
		name  string
		mille int
	}{{"p10", 100}, {"p25", 250}, {"p50", 500}, {"p75", 750}, {"p90", 900}, {"p99", 990}, {"p999", 999}} {
		figure(q.name, late[n*q.mille/1000])
	}
	figure("max", late[n-1])
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func main() {
	number := func(i int) int {
		if i >= len(os.Args) {
			return 1
		}
		n, err := strconv.Atoi(os.Args[i])
		if err != nil {
			panic(err)
		}
		return n
	}
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	n, threads := number(2), number(3)
	var r rng = seed
	switch os.Args[1] {
	case "pair":
		churn(n, threads, r.delay, pair)
	case "rearm":
		churn(n, 1, r.delay, move)
	case "refresh":
		churn(connections, 1, halfMinute, refresh)
	case "constant":
		churn(n, threads, halfMinute, armAndCancel)
	case "cycle":
		start := time.Now()
		armed(n, r.delay)
		figure("arm", nsEach(start, n))
	case "lateness":
		lateness()
	case "memory":
		// The live heap: the rest of what is resident is the collector's.
		before := heap()
		timers := armed(n, r.delay)
		figure("bytes", float64(heap()-before)/float64(n))
		runtime.KeepAlive(timers)
	default:
		os.Exit(2)
	}
}
