package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	hwheel "github.com/hwheel/hwheel/bindings/go"
	wheeltimers "github.com/hwheel/hwheel/bindings/go/timers"
)

const (
	pending = 10000
	pairs   = 200000
	many    = 1000
)

// own prints pairs of cancelling and arming a second, with 10,000 timers pending: the
// oldest is cancelled and another armed. Go's own AfterFunc, that of package timers, the
// wheel one by one, and the wheel with a call for a thousand, while a goroutine drives it.
// It counts the processor time of the whole process, the collector's included: the best of
// ten rounds.
func own() {
	var timers [pending]*time.Timer
	ring("own", func(i int) {
		if timers[i] != nil {
			timers[i].Stop()
		}
		timers[i] = time.AfterFunc(delay(i), func() {})
	})
	for i := range timers {
		timers[i].Stop()
	}

	form, err := wheeltimers.New(hwheel.Options{})
	check(err)
	var formed [pending]*wheeltimers.Timer
	ring("form", func(i int) {
		if formed[i] != nil {
			formed[i].Stop()
		}
		formed[i] = form.AfterFunc(delay(i), func() {})
	})
	form.Close()

	w, err := hwheel.New(hwheel.Options{})
	check(err)
	defer w.Close()
	go w.Run(context.Background(), make([]hwheel.Event, 1024), func([]hwheel.Event) {})
	var handles [pending]hwheel.Timer
	ring("one", func(i int) {
		if handles[i] != 0 {
			_, err := w.Delete(handles[i])
			check(err)
		}
		handles[i], err = w.Once(hwheel.In(delay(i)), uint64(i))
		check(err)
	})
	for i := range handles {
		_, err := w.Delete(handles[i])
		check(err)
		handles[i], err = w.Setup(uint64(i))
		check(err)
	}
	var times [pending]hwheel.When
	for i := range times {
		times[i] = hwheel.In(delay(i))
	}
	ring("many", func(i int) {
		if i%many == many-1 {
			i -= many - 1
			_, err := w.DeleteMany(handles[i:i+many], nil)
			check(err)
			_, err = w.ModMany(handles[i:i+many], times[i:i+many], nil)
			check(err)
		}
	})
}

// delay is one to two hours, and another for each timer.
func delay(i int) time.Duration {
	return time.Hour + time.Duration(i*7919%pending)*360*time.Millisecond
}

func ring(name string, pair func(i int)) {
	for i := 0; i < pending; i++ {
		pair(i)
	}
	shortest := time.Duration(1<<63 - 1)
	for round := 0; round < 10; round++ {
		begin := spent()
		for i := 0; i < pairs; i++ {
			pair(i % pending)
		}
		if d := spent() - begin; d < shortest {
			shortest = d
		}
	}
	fmt.Println(name, int(pairs/shortest.Seconds()))
}

// spent is the processor time of the process.
func spent() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
