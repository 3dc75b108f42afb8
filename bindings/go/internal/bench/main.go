// Command bench prints events per second, by batches and by one callback of
// the library for each timer. The best of thirty rounds, or of as many as five seconds
// hold; a round is a hundred thousand timers over a thousand ticks.
package main

/*
#cgo pkg-config: hwheel
#include <hwheel.h>

void fired(struct hwheel *, struct hwheel_event *);

static int at(void *wheel, uint64_t deadline, uint64_t cookie)
{
	return hwheel_once(wheel, deadline, (hwheel_fn)fired, cookie, HWHEEL_ABS, NULL);
}

static struct hwheel *manual(void)
{
	struct hwheel_options options = { 0 };
	struct hwheel *wheel = NULL;

	options.size = sizeof options;
	options.clock = HWHEEL_CLOCK_MANUAL;
	return hwheel_create(&options, &wheel) == 0 ? wheel : NULL;
}
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"

	hwheel "github.com/hwheel/hwheel/bindings/go"
)

const (
	timers = 100000
	tick   = 1000000
	end    = 1000 * tick
	rounds = 30
	limit  = 5 * time.Second
)

var total uint64

//export fired
func fired(_ *C.struct_hwheel, event *C.struct_hwheel_event) {
	total += uint64(event.cookie)
}

func batch() time.Duration {
	w, err := hwheel.New(hwheel.Options{Clock: hwheel.Manual})
	check(err)
	defer w.Close()
	for cookie := uint64(0); cookie < timers; cookie++ {
		_, err := w.Once(hwheel.At(cookie%1000*tick), cookie)
		check(err)
	}
	events := make([]hwheel.Event, 1024)
	begin := time.Now()
	for n := len(events); n == len(events); {
		n, err = w.Advance(end, events)
		check(err)
		for i := range events[:n] {
			total += events[i].Cookie
		}
	}
	return time.Since(begin)
}

func callback() time.Duration {
	w := C.manual()
	defer C.hwheel_destroy(w)
	for cookie := uint64(0); cookie < timers; cookie++ {
		C.at(unsafe.Pointer(w), C.uint64_t(cookie%1000*tick), C.uint64_t(cookie))
	}
	begin := time.Now()
	C.hwheel_advance(w, end, nil, 0, nil)
	return time.Since(begin)
}

func rate(way func() time.Duration) int {
	var best float64
	begin := time.Now()
	for i := 0; i < 3 || i < rounds && time.Since(begin) < limit; i++ {
		total = 0
		seconds := way().Seconds()
		if total != timers*(timers-1)/2 {
			panic("not every timer fired once")
		}
		if r := timers / seconds; r > best {
			best = r
		}
	}
	return int(best)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	fmt.Println("batch", rate(batch))
	fmt.Println("callback", rate(callback))
	own()
}
