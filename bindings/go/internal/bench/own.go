package main

import (
	"fmt"
	"time"

	hwheel "github.com/hwheel/hwheel/bindings/go"
)

const (
	pending = 10000
	pairs   = 100000
	many    = 1000
)

// own prints pairs of arming and cancelling a second, with 10,000 other timers pending:
// Go's own AfterFunc, the wheel one by one, and the wheel with a call for a thousand. The
// best of ten rounds.
func own() {
	var others []*time.Timer
	for i := 0; i < pending; i++ {
		others = append(others, time.AfterFunc(time.Hour, func() {}))
	}
	best("own", func() {
		for i := 0; i < pairs; i++ {
			time.AfterFunc(time.Hour, func() {}).Stop()
		}
	})
	for _, timer := range others {
		timer.Stop()
	}

	w, err := hwheel.New(hwheel.Options{})
	check(err)
	defer w.Close()
	for cookie := uint64(0); cookie < pending; cookie++ {
		_, err := w.Once(hwheel.In(time.Hour), cookie)
		check(err)
	}
	best("one", func() {
		for i := uint64(0); i < pairs; i++ {
			timer, err := w.Once(hwheel.In(time.Hour), i)
			check(err)
			_, err = w.Delete(timer)
			check(err)
		}
	})
	timers, times := make([]hwheel.Timer, many), make([]hwheel.When, many)
	for i := range timers {
		timers[i], err = w.Setup(0)
		check(err)
		times[i] = hwheel.In(time.Hour)
	}
	best("many", func() {
		for i := 0; i < pairs; i += many {
			_, err := w.ModMany(timers, times, nil)
			check(err)
			_, err = w.DeleteMany(timers, nil)
			check(err)
		}
	})
}

func best(name string, way func()) {
	shortest := time.Duration(1<<63 - 1)
	for i := 0; i < 10; i++ {
		begin := time.Now()
		way()
		if d := time.Since(begin); d < shortest {
			shortest = d
		}
	}
	fmt.Println(name, int(pairs/shortest.Seconds()))
}
