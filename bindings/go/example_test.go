package hwheel_test

import (
	"context"
	"fmt"
	"time"

	hwheel "github.com/hwheel/hwheel/bindings/go"
)

// The smallest program: one timer, waited for.
func Example() {
	wheel, err := hwheel.New(hwheel.Options{})
	if err != nil {
		panic(err)
	}
	defer wheel.Close()
	wheel.Once(hwheel.In(100*time.Millisecond), 42)

	ctx, done := context.WithCancel(context.Background())
	wheel.Run(ctx, make([]hwheel.Event, 1), func(events []hwheel.Event) {
		fmt.Println("hello", events[0].Cookie)
		done()
	})
	// Output: hello 42
}

// The fast way: a thousand idle timeouts, handed over in batches of 256.
func Example_batches() {
	wheel, err := hwheel.New(hwheel.Options{})
	if err != nil {
		panic(err)
	}
	defer wheel.Close()
	for connection := uint64(0); connection < 1000; connection++ {
		wheel.Once(hwheel.In(50*time.Millisecond), connection)
	}

	left := 1000
	ctx, done := context.WithCancel(context.Background())
	wheel.Run(ctx, make([]hwheel.Event, 256), func(events []hwheel.Event) {
		if left -= len(events); left == 0 {
			done()
		}
	})
	fmt.Println("all timed out")
	// Output: all timed out
}
