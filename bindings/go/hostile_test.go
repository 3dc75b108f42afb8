package hwheel

import (
	"context"
	"errors"
	"os"
	"reflect"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Every call of a wheel, with arguments that do no harm.
func everyCall(w *Wheel, timer Timer, events []Event) []error {
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	_, err := w.Once(In(time.Millisecond), 1)
	add(err)
	_, err = w.Every(In(0), Period{Length: time.Millisecond}, 2)
	add(err)
	_, err = w.Setup(3)
	add(err)
	_, err = w.Mod(timer, In(time.Millisecond))
	add(err)
	_, err = w.ModIf(Reduce, timer, In(time.Millisecond))
	add(err)
	_, err = w.ModRange(timer, In(0), time.Millisecond)
	add(err)
	add(w.SetPeriod(timer, 0))
	_, err = w.ModMany([]Timer{timer}, []When{In(0)}, nil)
	add(err)
	_, err = w.DeleteMany([]Timer{timer}, nil)
	add(err)
	_, err = w.Pending(timer)
	add(err)
	_, _, err = w.Remaining(timer)
	add(err)
	_, err = w.Delete(timer)
	add(err)
	_, err = w.Shutdown(timer)
	add(err)
	_, err = w.Free(timer)
	add(err)
	_, err = w.KeySet(KeyOf(7), In(0), 4)
	add(err)
	_, err = w.KeyMod(KeyOf(7), In(0))
	add(err)
	_, err = w.KeyPending(KeyOf(7))
	add(err)
	_, err = w.KeyDelete(KeyOf(7))
	add(err)
	_, err = w.Now()
	add(err)
	_, _, err = w.NextExpiry()
	add(err)
	_, err = w.Stats()
	add(err)
	_, err = w.Poll(events)
	add(err)
	_, err = w.Advance(1, events)
	add(err)
	var cursor uint64
	_, err = w.List(&cursor, events)
	add(err)
	_, err = w.Fd()
	add(err)
	return errs
}

func TestOneClosesWhileOthersUseIt(t *testing.T) {
	for round := 0; round < 60; round++ {
		w := must(New(Options{}))
		var using sync.WaitGroup
		for g := 0; g < 4; g++ {
			using.Add(1)
			go func() {
				defer using.Done()
				events := make([]Event, 4)
				for {
					timer, err := w.Setup(1)
					if errors.Is(err, os.ErrClosed) {
						return
					}
					everyCall(w, timer, events)
				}
			}()
		}
		for g := 0; g < 2; g++ {
			using.Add(1)
			go func() {
				defer using.Done()
				time.Sleep(time.Duration(round%10) * 100 * time.Microsecond)
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}()
		}
		using.Wait()
	}
}

func TestUseAfterClose(t *testing.T) {
	w := must(New(Options{}))
	timer := must(w.Setup(1))
	for i := 0; i < 3; i++ {
		must(0, w.Close())
	}
	for i, err := range everyCall(w, timer, make([]Event, 1)) {
		if !errors.Is(err, os.ErrClosed) || err.Error() != "hwheel: the wheel is closed" {
			t.Errorf("call %d of a closed wheel: %v", i, err)
		}
	}
	err := w.Run(context.Background(), make([]Event, 1), nil)
	equal(t, errors.Is(err, ErrClosed), true)
	_, err = w.Drain(make([]Event, 1))
	equal(t, errors.Is(err, ErrClosed), true)
}

func TestAWheelThatNewHasNotMade(t *testing.T) {
	made := open(t, Options{})
	copied := new(Wheel)
	reflect.ValueOf(copied).Elem().Set(reflect.ValueOf(made).Elem()) // vet refuses *made
	for _, w := range []*Wheel{nil, new(Wheel), copied} {
		for i, err := range everyCall(w, 1, make([]Event, 1)) {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		must(0, w.Close())
	}
	must(made.Once(In(0), 1))
}

func TestCloseWakesRun(t *testing.T) {
	for _, drained := range []bool{false, true} {
		w := must(New(Options{MaxTimers: 1}))
		if drained {
			must(w.Drain(make([]Event, 1)))
		} else {
			must(w.Once(In(Never), 1))
		}
		ended := make(chan error)
		go func() { ended <- w.Run(context.Background(), make([]Event, 1), nil) }()
		time.Sleep(20 * time.Millisecond)
		must(0, w.Close())
		select {
		case err := <-ended:
			equal(t, errors.Is(err, ErrClosed), true)
		case <-time.After(10 * time.Second):
			t.Fatal("Run still sleeps")
		}
	}
}

func TestRunMayCloseItsWheel(t *testing.T) {
	w := must(New(Options{}))
	must(w.Once(In(0), 1))
	err := w.Run(context.Background(), make([]Event, 1), func([]Event) { w.Close() })
	equal(t, errors.Is(err, ErrClosed), true)
}

func TestTheCollectorClosesAForgottenWheel(t *testing.T) {
	before := len(must(os.ReadDir("/proc/self/fd")))
	for i := 0; i < 50; i++ {
		w := must(New(Options{}))
		must(w.Fd())
		must(w.Once(In(time.Hour), 1))
	}
	for i := 0; i < 100; i++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
		if len(must(os.ReadDir("/proc/self/fd"))) < before+10 {
			return
		}
	}
	t.Error("the wheels are still open")
}

func TestHostileArguments(t *testing.T) {
	w := open(t, Options{})
	for _, timer := range []Timer{0, 1, 12345, 1 << 63, 1<<64 - 1} {
		for _, call := range []func(Timer) (bool, error){w.Delete, w.Shutdown, w.Free, w.Pending} {
			fails[bool](t, syscall.ESTALE)(call(timer))
		}
		fails[bool](t, syscall.ESTALE)(w.Mod(timer, In(0)))
	}
	fails[int](t, syscall.EINVAL)(w.List(nil, make([]Event, 1)))
	fails[int](t, syscall.EINVAL)(w.Drain(nil))
	fails[bool](t, syscall.EINVAL)(w.KeySet(make([]byte, 256), In(0), 1))
	fails[bool](t, syscall.EINVAL)(w.KeySet([]byte{}, In(0), 1))
	fails[int](t, syscall.EINVAL)(w.ModMany(make([]Timer, 2), make([]When, 1), nil))
	fails[int](t, syscall.EINVAL)(w.ModMany(make([]Timer, 1), make([]When, 1), make([]error, 2)))
	fails[int](t, syscall.EINVAL)(w.DeleteMany(make([]Timer, 1), make([]error, 2)))
	timer := must(w.Setup(1))
	for _, flag := range []uint32{1, 3, 8, 1 << 31} {
		fails[bool](t, syscall.EINVAL)(w.ModIf(Condition(flag), timer, In(time.Hour)))
		fails[Timer](t, syscall.EINVAL)(w.Every(In(0), Period{time.Hour, 0, Missed(flag)}, 1))
	}
	fails[int](t, syscall.EINVAL)(0, w.Run(nil, make([]Event, 1), nil))
}
