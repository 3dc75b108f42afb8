// Package timers calls functions and ends contexts, as packages time and context do, over
// a wheel.
//
// A call into C costs more than a timer. So arming and stopping touch memory of Go's only:
// what has changed crosses into C at most a millisecond later, many timers in one call. A
// timer of less than two milliseconds crosses at once, and so does the first change after
// a millisecond without any. A timer that is stopped before its crossing costs nothing in
// C.
package timers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	hwheel "github.com/hwheel/hwheel/bindings/go"
)

const (
	shards = 8
	gather = 256                  // changes of a shard that cross at once
	later  = time.Millisecond     // time until fewer cross
	soon   = 2 * time.Millisecond // a timer before this crosses at once
	batch  = 1024                 // events
	never  = uint64(1)<<63 - 1
)

// Timers makes timers. Any goroutine may call it at any time, Close included.
type Timers struct {
	wheel   *hwheel.Wheel
	begin   time.Time
	beginNs uint64 // on the wheel's clock
	crossed *time.Timer
	planned atomic.Bool // crossed runs soon
	limit   int64       // on pending timers, 0 for none
	pending atomic.Int64
	shards  [shards]shard
}

// A shard has a lock of its own, so that goroutines on different processors seldom meet.
type shard struct {
	sync.Mutex
	timers  *Timers
	slots   []slot
	free    []uint32 // slots without an owner
	changed []uint32 // slots that C does not know yet
	crossed uint64   // when they did last
	arm     changes
	disarm  changes
	_       [64]byte
}

// A slot is a timer of C, which one timer of Go after the other owns.
type slot struct {
	owner   *Timer
	handle  hwheel.Timer
	changed bool
}

// changes are what one call of C takes.
type changes struct {
	slots   []uint32
	handles []hwheel.Timer
	times   []hwheel.When
	errs    []error
}

// Timer is a function that is called later. Timers.AfterFunc makes it; one that it has not
// made, such as a copy of a pending one, is not pending.
type Timer struct {
	shard    *shard
	call     func()
	deadline uint64 // on the wheel's clock
	slot     uint32 // its own while it is pending
	err      error
}

// New makes timers with a wheel of their own, which a goroutine drives until Close. The
// wheel's clock is hwheel.Monotonic. MaxTimers limits the pending timers.
func New(options hwheel.Options) (*Timers, error) {
	if options.Clock != hwheel.Monotonic {
		return nil, hwheel.Error(syscall.EINVAL)
	}
	limit := int64(options.MaxTimers)
	options.MaxTimers = 0 // Slots without an owner stay timers of C.
	wheel, err := hwheel.New(options)
	if err != nil {
		return nil, err
	}
	t := &Timers{wheel: wheel, limit: limit}
	if t.begin, t.beginNs, err = together(wheel.Now); err != nil {
		wheel.Close()
		return nil, err
	}
	if _, err := wheel.Fd(); err != nil { // Run needs it.
		wheel.Close()
		return nil, err
	}
	for i := range t.shards {
		t.shards[i].timers = t
	}
	t.crossed = time.AfterFunc(time.Hour, t.cross)
	t.crossed.Stop()
	go t.drive()
	return t, nil
}

// together reads Go's clock and the wheel's. It reads them again if the system took the
// processor away in between: every timer would be late by that time.
func together(now func() (uint64, error)) (begin time.Time, beginNs uint64, err error) {
	least := time.Duration(never)
	for i := 0; i < 10 && least > later/10; i++ {
		before := time.Now()
		ns, err := now()
		if err != nil {
			return before, 0, err
		}
		if took := time.Since(before); took < least {
			least, begin, beginNs = took, before, ns
		}
	}
	return begin, beginNs, nil
}

// drive runs the wheel until Close. It tries again if there is no descriptor for now.
func (t *Timers) drive() {
	events := make([]hwheel.Event, batch)
	for !errors.Is(t.wheel.Run(context.Background(), events, t.due), hwheel.ErrClosed) {
		time.Sleep(later)
	}
}

// made says whether New has made the timers.
func (t *Timers) made() bool {
	return t != nil && t.shards[0].timers == t
}

// Stats returns the counts of the wheel of the timers.
func (t *Timers) Stats() (hwheel.Stats, error) {
	if !t.made() {
		return hwheel.Stats{}, hwheel.ErrClosed
	}
	return t.wheel.Stats()
}

// Close frees the wheel. What is pending is not called, and no context ends by its
// deadline. A second Close does nothing.
func (t *Timers) Close() error {
	if !t.made() {
		return nil
	}
	err := t.wheel.Close()
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		for j := range s.slots {
			if owner := s.slots[j].owner; owner != nil {
				owner.err = hwheel.ErrClosed
			}
		}
		s.slots, s.free, s.changed = nil, nil, nil
		s.Unlock()
	}
	return err
}

// AfterFunc calls f in a goroutine of its own after the duration, at once if that is zero
// or less, as in package time. A timer that the wheel has no room for is not pending, and
// its Err says why.
func (t *Timers) AfterFunc(d time.Duration, f func()) *Timer {
	if !t.made() {
		return &Timer{}
	}
	// The stacks of two goroutines differ: so they choose.
	var here byte
	timer := &Timer{shard: &t.shards[uintptr(unsafe.Pointer(&here))>>12%shards], call: f}
	timer.Reset(d)
	return timer
}

// Stop prevents the call. True if the timer was pending; false if the call has begun, or
// the timer was stopped.
func (t *Timer) Stop() bool {
	if t == nil || t.shard == nil {
		return false
	}
	s := t.shard
	s.Lock()
	defer s.Unlock()
	if !s.pending(t) {
		return false
	}
	s.release(t)
	var now uint64
	if len(s.changed) == 0 {
		now = s.timers.now()
	}
	s.change(t.slot, never, now)
	return true
}

// Reset calls f after the duration from now instead. True if the timer was pending. It may
// also be used after the call.
func (t *Timer) Reset(d time.Duration) bool {
	if t == nil || t.shard == nil {
		return false
	}
	if d < 0 {
		d = 0
	}
	s := t.shard
	now := s.timers.now()
	deadline := now + uint64(d)
	if deadline > never {
		deadline = never
	}
	s.Lock()
	defer s.Unlock()
	was := s.pending(t)
	if !was {
		if t.err = s.own(t); t.err != nil {
			return false
		}
	}
	t.deadline = deadline
	s.change(t.slot, uint64(d), now)
	return was
}

// Err says why the timer could not be armed: hwheel.ErrClosed, ENOSPC or ENOMEM. It is nil
// if the timer was armed.
func (t *Timer) Err() error {
	if t == nil || t.shard == nil {
		return hwheel.ErrClosed
	}
	t.shard.Lock()
	defer t.shard.Unlock()
	return t.err
}

// now is the time on the wheel's clock; at most some microseconds ahead, never behind.
func (t *Timers) now() uint64 {
	return t.beginNs + uint64(time.Since(t.begin))
}

// pending says whether the timer has a slot.
func (s *shard) pending(t *Timer) bool {
	return t.slot < uint32(len(s.slots)) && s.slots[t.slot].owner == t
}

// own gives the timer a slot.
func (s *shard) own(t *Timer) error {
	if t.call == nil {
		return hwheel.Error(syscall.EINVAL)
	}
	timers := s.timers
	if timers.limit > 0 && timers.pending.Add(1) > timers.limit {
		timers.pending.Add(-1)
		return hwheel.Error(syscall.ENOSPC)
	}
	if n := len(s.free); n > 0 {
		t.slot, s.free = s.free[n-1], s.free[:n-1]
	} else {
		n := uint32(len(s.slots))
		shard := uint64((uintptr(unsafe.Pointer(s)) - uintptr(unsafe.Pointer(&timers.shards))) /
			unsafe.Sizeof(shard{}))
		handle, err := timers.wheel.Setup(uint64(n)*shards + shard)
		if err != nil {
			timers.uncount()
			return err
		}
		t.slot, s.slots = n, append(s.slots, slot{handle: handle})
	}
	s.slots[t.slot].owner = t
	return nil
}

// release takes the slot of a timer that is no longer pending.
func (s *shard) release(t *Timer) {
	s.timers.uncount()
	s.slots[t.slot].owner = nil
	s.free = append(s.free, t.slot)
}

func (t *Timers) uncount() {
	if t.limit > 0 {
		t.pending.Add(-1)
	}
}

// change notes a slot that C does not know any more. The delay is the time until C must.
func (s *shard) change(i uint32, delay, now uint64) {
	if !s.slots[i].changed {
		s.slots[i].changed = true
		s.changed = append(s.changed, i)
	}
	n := len(s.changed)
	quiet := n == 1 && now > s.crossed+uint64(later)
	if delay < uint64(soon) || n >= gather || quiet {
		s.cross(now)
	} else if n == 1 {
		s.timers.plan()
	}
}

func (t *Timers) plan() {
	if t.planned.CompareAndSwap(false, true) {
		t.crossed.Reset(later)
	}
}

// cross tells C what has changed.
func (t *Timers) cross() {
	t.planned.Store(false)
	now := t.now()
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		s.cross(now)
		s.Unlock()
	}
}

func (s *shard) cross(now uint64) {
	if len(s.changed) == 0 {
		return
	}
	s.crossed = now
	for _, i := range s.changed {
		slot := &s.slots[i]
		slot.changed = false
		if slot.owner != nil {
			s.arm.add(i, slot.handle)
			s.arm.times = append(s.arm.times, hwheel.At(slot.owner.deadline))
		} else {
			s.disarm.add(i, slot.handle)
		}
	}
	s.changed = s.changed[:0]
	// A call that fails as a whole is one of a closed wheel.
	if _, err := s.timers.wheel.DeleteMany(s.disarm.handles, s.disarm.errs); err == nil {
		_, err = s.timers.wheel.ModMany(s.arm.handles, s.arm.times, s.arm.errs)
		for i := 0; err == nil && i < len(s.arm.errs); i++ {
			if s.arm.errs[i] != nil { // no memory for now
				slot := s.arm.slots[i]
				s.slots[slot].changed = true
				s.changed = append(s.changed, slot)
			}
		}
	}
	if len(s.changed) > 0 {
		s.timers.plan()
	}
	s.arm.clear()
	s.disarm.clear()
}

func (c *changes) add(slot uint32, handle hwheel.Timer) {
	c.slots = append(c.slots, slot)
	c.handles = append(c.handles, handle)
	c.errs = append(c.errs, nil)
}

func (c *changes) clear() {
	c.slots, c.handles, c.times, c.errs = c.slots[:0], c.handles[:0], c.times[:0], c.errs[:0]
}

// due calls the functions of a batch. A slot may have another owner than when C took the
// event, or its owner another deadline: it is not called before that.
func (t *Timers) due(events []hwheel.Event) {
	now := t.now()
	for i := range events {
		s, n := &t.shards[events[i].Cookie%shards], uint32(events[i].Cookie/shards)
		s.Lock()
		if n < uint32(len(s.slots)) {
			if owner := s.slots[n].owner; owner != nil && owner.deadline <= now {
				s.release(owner)
				go owner.call()
			}
		}
		s.Unlock()
	}
}
