package timers_test

import (
	"context"
	"fmt"
	"time"

	hwheel "github.com/hwheel/hwheel/bindings/go"
	"github.com/hwheel/hwheel/bindings/go/timers"
)

func Example() {
	all, err := timers.New(hwheel.Options{})
	if err != nil {
		panic(err)
	}
	defer all.Close()
	idle := all.AfterFunc(30*time.Second, func() { fmt.Println("idle") })
	fmt.Println(idle.Reset(30*time.Second), idle.Stop())
	ctx, cancel := all.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	fmt.Println(ctx.Err())
	// Output:
	// true true
	// context deadline exceeded
}
