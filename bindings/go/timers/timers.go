// Package timers has the timers of package time, and deadlines of contexts, over a wheel.
//
// The channel of a timer or a ticker has the rules of Go 1.23, whatever the version: once
// Stop or Reset has returned, it gives no value from before. It has room for one time, so
// that cap of it is 1. The wheel refers to what is pending: a timer that nobody stops
// stays until its time, and a ticker until Stop or Close.
//
// As in package time, these panic: a call of a Timer or a Ticker that is nil, Stop and
// Reset of a Timer that nothing has made, Reset of such a Ticker, and a ticker whose period
// is zero or less.
//
// A call into C costs more than a timer. So arming and stopping touch memory of Go's only:
// what has changed crosses into C at most a millisecond later, many timers in one call. A
// timer of less than two milliseconds crosses at once, and so does the first change after
// a millisecond without any. A timer that is stopped before its crossing costs nothing in
// C.
//
// Two things drive the wheel, whichever comes first: a goroutine in the network poller, which
// is exact while a processor is idle, and one timer of package time, which is on time when
// goroutines compute on every processor.
//
// In a bubble of testing/synctest the timers are those of package time, and follow the clock
// of the bubble. A timer that was armed outside of a bubble leaves the wheel when a goroutine
// of a bubble stops or resets it. As in package time, a timer that was armed in a bubble
// belongs to it: Stop and Reset panic outside.
package timers

import (
	"errors"
	"os"
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

	// No process runs for longer. The clock of a bubble begins in the year 2000. There is no
	// monotonic time in a bubble, so that the time since a begin outside is negative, or
	// decades.
	longest = uint64(10 * 365 * 24 * time.Hour)
)

// began is before every bubble of testing/synctest, and outside of it.
var began = time.Now()

// Timers makes timers. Any goroutine may call it at any time, Close included.
type Timers struct {
	wheel   *hwheel.Wheel
	once    sync.Once
	beganNs uint64 // the time began on the wheel's clock
	alarm   alarm
	driving sync.Mutex
	events  []hwheel.Event
	closed  chan struct{}
	limit   int64 // on pending timers, 0 for none
	pending atomic.Int64
	shards  [shards]shard
}

// An alarm calls drive once. Setting it again replaces the time.
type alarm struct {
	sync.Mutex
	at    atomic.Uint64 // on the wheel's clock; never if it is not set
	timer *time.Timer
}

// A shard has a lock of its own, so that goroutines on different processors seldom meet.
type shard struct {
	sync.Mutex
	timers  *Timers
	slots   []slot
	free    []uint32 // slots without an owner
	changed []uint32 // slots that C does not know yet
	closed  bool
	bubbles map[*Timer]*time.Timer // those that are pending in bubbles
	crossed uint64                 // when changes last crossed
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

// Timer calls a function, or sends the time on a channel, once. AfterFunc and NewTimer make
// it; a copy of a pending one is not pending.
type Timer struct {
	C        <-chan time.Time // nil after AfterFunc
	shard    *shard
	call     func()
	deadline uint64 // on the wheel's clock
	period   uint64 // of a ticker
	slot     uint32 // its own while it is pending
	failed   failure
	sends    bool // call sends on C, at once
}

// failure is why a timer is not armed.
type failure uint16

const wheelClosed failure = 1<<16 - 1 // others are numbers of the system

func reason(err error) failure {
	var number syscall.Errno
	if errors.As(err, &number) {
		return failure(number)
	}
	return wheelClosed
}

// New makes timers with a wheel of their own, which they drive until Close. The wheel's clock
// is hwheel.Monotonic. MaxTimers limits the pending timers.
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
	t := &Timers{wheel: wheel, limit: limit, closed: make(chan struct{})}
	for i := range t.shards {
		t.shards[i].timers = t
	}
	return t, nil
}

// begin makes what New does not: New may be called in a bubble.
func (t *Timers) begin() {
	t.alarm.timer = time.AfterFunc(time.Hour, t.drive)
	t.alarm.timer.Stop()
	t.alarm.at.Store(never)
	t.events = make([]hwheel.Event, batch)
	go t.watch()
	// It fails if the wheel is closed. Then no timer is armed.
	begin, beginNs, _ := together(t.wheel.Now)
	t.beganNs = beginNs - uint64(begin.Sub(began))
}

// watch drives the wheel when its descriptor says so, until Close. Without a descriptor the
// alarm does it alone.
func (t *Timers) watch() {
	file := t.file()
	if file == nil {
		return
	}
	defer file.Close()
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	go func() {
		<-t.closed
		file.SetReadDeadline(time.Unix(1, 0)) // wakes the sleeper
	}()
	conn.Read(func(uintptr) bool {
		t.drive()
		return false // sleep until it is readable
	})
}

// file is a file of our own on the wheel's descriptor, or nil.
func (t *Timers) file() *os.File {
	t.alarm.Lock() // Close does not close the descriptor meanwhile.
	defer t.alarm.Unlock()
	fd, err := t.wheel.Fd()
	if err != nil {
		return nil
	}
	own, _, failed := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if failed != 0 {
		return nil
	}
	syscall.SetNonblock(int(own), true)
	return os.NewFile(own, "hwheel")
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

// wake has drive called at the time, or before. No goroutine of a bubble calls it.
func (t *Timers) wake(at, now uint64) {
	a := &t.alarm
	if at >= a.at.Load() {
		return
	}
	a.Lock()
	defer a.Unlock()
	if at >= a.at.Load() {
		return
	}
	a.at.Store(at)
	if at < now {
		at = now
	}
	a.timer.Reset(time.Duration(at - now))
}

// drive tells C what has changed, fires what is due, and sets the alarm.
func (t *Timers) drive() {
	t.driving.Lock()
	defer t.driving.Unlock()
	// First: who arms a timer from now on sets the alarm. What was armed before is found.
	t.alarm.Lock()
	t.alarm.at.Store(never)
	t.alarm.Unlock()
	now, _ := t.now()
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		s.cross(now)
		s.Unlock()
	}
	for {
		n, err := t.wheel.Poll(t.events)
		if errors.Is(err, hwheel.ErrClosed) {
			return
		}
		if err != nil { // no memory for now
			t.wake(now+uint64(later), now)
			return
		}
		t.due(t.events[:n])
		if n < len(t.events) {
			break
		}
	}
	t.plan()
}

// plan sets the alarm for what C knows.
func (t *Timers) plan() {
	if next, pending, err := t.wheel.NextExpiry(); pending && err == nil {
		now, _ := t.now()
		t.wake(next, now)
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

// Close frees the wheel. What is pending is not called and not sent, and no context ends by
// its deadline. A second Close does nothing.
func (t *Timers) Close() error {
	if !t.made() {
		return nil
	}
	t.alarm.Lock() // The driver may be about to use the descriptor.
	err := t.wheel.Close()
	t.alarm.Unlock()
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		for j := range s.slots {
			if owner := s.slots[j].owner; owner != nil {
				owner.failed = wheelClosed
			}
		}
		for timer := range s.bubbles {
			timer.failed = wheelClosed
		}
		s.slots, s.free, s.changed, s.bubbles = nil, nil, nil, nil
		if i == 0 && !s.closed {
			close(t.closed)
		}
		s.closed = true
		s.Unlock()
	}
	return err
}

// AfterFunc calls f in a goroutine of its own after the duration, as in package time. If
// that is zero or less, f is called at the next tick. A timer that the wheel has no room
// for is not pending, and its Err says why.
func (t *Timers) AfterFunc(d time.Duration, f func()) *Timer {
	timer := &Timer{call: f}
	t.start(timer, d)
	return timer
}

// NewTimer sends the time on the channel C after the duration, as in package time. If that
// is zero or less, it is there when NewTimer returns. Err says whether the wheel had no
// room for the timer.
func (t *Timers) NewTimer(d time.Duration) *Timer {
	timer := new(Timer)
	timer.channel()
	t.start(timer, d)
	return timer
}

// After returns a channel that gives the time after the duration, as in package time. If
// the wheel has no room, it is time.After itself.
func (t *Timers) After(d time.Duration) <-chan time.Time {
	if timer := t.NewTimer(d); timer.Err() == nil {
		return timer.C
	}
	return time.After(d)
}

// Sleep returns after the duration, as in package time: at once if that is zero or less.
// It keeps the duration even if the timers are closed meanwhile.
func (t *Timers) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	end := time.Now().Add(d)
	if !t.made() || inBubble() {
		time.Sleep(d)
	} else if timer := t.NewTimer(d); timer.Err() == nil {
		select {
		case <-timer.C:
			return
		case <-t.closed:
		}
	}
	time.Sleep(time.Until(end))
}

// Ticker sends the time on the channel C again and again. NewTicker makes it.
type Ticker struct {
	C     <-chan time.Time
	timer Timer
}

// NewTicker sends the time on the channel C after each period, as in package time. It drops
// ticks for a slow receiver, and does not drift. Err says whether the wheel had no room for
// it.
func (t *Timers) NewTicker(d time.Duration) *Ticker {
	if d <= 0 {
		panic("timers: non-positive interval for NewTicker")
	}
	ticker := new(Ticker)
	ticker.timer.channel()
	ticker.timer.period = uint64(d)
	ticker.C = ticker.timer.C
	t.start(&ticker.timer, d)
	return ticker
}

// Tick returns the channel of a ticker that nobody can stop, as in package time: nil for a
// period of zero or less. If the wheel has no room, it is time.Tick itself.
func (t *Timers) Tick(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	if ticker := t.NewTicker(d); ticker.Err() == nil {
		return ticker.C
	}
	return time.Tick(d)
}

// Stop ends the ticks, and does not close the channel.
func (t *Ticker) Stop() {
	if t.timer.made() {
		t.timer.Stop()
	}
}

// Reset changes the period, which begins now.
func (t *Ticker) Reset(d time.Duration) {
	if d <= 0 {
		panic("timers: non-positive interval for Ticker.Reset")
	}
	t.timer.reset(d, uint64(d))
}

// Err says why the ticker is not armed, as that of a Timer.
func (t *Ticker) Err() error {
	return t.timer.Err()
}

// channel makes the timer one that sends.
func (t *Timer) channel() {
	c := make(chan time.Time, 1)
	t.C, t.sends = c, true
	t.call = func() {
		select {
		case c <- time.Now():
		default: // The receiver is slow.
		}
	}
}

// start arms a new timer.
func (t *Timers) start(timer *Timer, d time.Duration) {
	if !t.made() {
		timer.failed = wheelClosed
		return
	}
	// The stacks of two goroutines differ: so they choose.
	var here byte
	timer.shard = &t.shards[uintptr(unsafe.Pointer(&here))>>12%shards]
	timer.reset(d, timer.period)
}

// made says whether something has made the timer, with a wheel or without.
func (t *Timer) made() bool {
	return t.shard != nil || t.failed != 0
}

// drain takes a time out of the channel. The caller holds the lock, so none follows.
func (t *Timer) drain() bool {
	if t.sends {
		select {
		case <-t.C:
			return true
		default:
		}
	}
	return false
}

// Stop prevents the call, or the time on the channel. True if it does; false if the call
// has begun, the time was received, or the timer was stopped.
func (t *Timer) Stop() bool {
	if !t.made() {
		panic("timers: Stop called on uninitialized Timer")
	}
	s := t.shard
	if s == nil {
		return false
	}
	s.Lock()
	defer s.Unlock()
	was := t.drain()
	if !s.pending(t) {
		return was
	}
	if timer := s.bubbles[t]; timer != nil {
		timer.Stop()
		s.leave(t)
		return true
	}
	if len(s.changed) == 0 {
		s.disown(t)
	} else { // Others have set the alarm: this one needs no clock.
		s.release(t)
		s.change(t.slot, never, 0)
	}
	return true
}

// Reset begins anew with the duration. True if it replaces a call or a time that was still
// to come, as Stop. It may also be used afterwards.
func (t *Timer) Reset(d time.Duration) bool {
	if !t.made() {
		panic("timers: Reset called on uninitialized Timer")
	}
	return t.reset(d, 0)
}

func (t *Timer) reset(d time.Duration, period uint64) bool {
	if !t.made() {
		panic("timers: Reset called on uninitialized Ticker")
	}
	s := t.shard
	if s == nil {
		return false
	}
	if d < 0 {
		d = 0
	}
	now, bubble := s.timers.now()
	deadline := now + uint64(d)
	if deadline > never {
		deadline = never
	}
	s.Lock()
	defer s.Unlock()
	was := s.pending(t)
	if t.sends {
		was = t.drain() || was
		t.period = period
		if d == 0 {
			s.sendNow(t)
			return was
		}
	}
	if bubble || s.bubbles[t] != nil {
		s.bubble(t, d, deadline)
		return was
	}
	if !s.owns(t) {
		if t.failed = s.own(t); t.failed != 0 {
			return was
		}
	}
	t.deadline = deadline
	s.change(t.slot, uint64(d), now)
	return was
}

// Err says why the timer could not be armed: hwheel.ErrClosed, ENOSPC or ENOMEM. It is nil
// if the timer was armed.
func (t *Timer) Err() error {
	s := t.shard
	if s == nil {
		return hwheel.ErrClosed
	}
	s.Lock()
	defer s.Unlock()
	switch t.failed {
	case 0:
		return nil
	case wheelClosed:
		return hwheel.ErrClosed
	}
	return hwheel.Error(t.failed)
}

// now is the time on the wheel's clock; at most some microseconds ahead, never behind. In a
// bubble it is the time of the bubble.
func (t *Timers) now() (ns uint64, bubble bool) {
	since := time.Since(began)
	if uint64(since) > longest {
		return uint64(since + 1<<62), true
	}
	t.once.Do(t.begin)
	return t.beganNs + uint64(since), false
}

// inBubble says whether the goroutine is in a bubble of testing/synctest.
func inBubble() bool {
	return uint64(time.Since(began)) > longest
}

// pending says whether the timer has a slot, or a timer of package time in a bubble.
func (s *shard) pending(t *Timer) bool {
	return s.owns(t) || s.bubbles[t] != nil
}

func (s *shard) owns(t *Timer) bool {
	return t.slot < uint32(len(s.slots)) && s.slots[t.slot].owner == t
}

// sendNow sends without the wheel.
func (s *shard) sendNow(t *Timer) {
	if timer := s.bubbles[t]; timer != nil {
		timer.Stop()
		s.leave(t)
	} else if s.owns(t) {
		s.disown(t)
	}
	if t.failed = 0; s.closed {
		t.failed = wheelClosed
		return
	}
	t.call()
}

// disown takes the timer out of the wheel.
func (s *shard) disown(t *Timer) {
	now, bubble := s.timers.now()
	s.release(t)
	switch {
	case !bubble:
		s.change(t.slot, never, now)
	case !s.slots[t.slot].changed:
		// The alarm is set only outside. If other slots have changed, it is set.
		s.slots[t.slot].changed = true
		if s.changed = append(s.changed, t.slot); len(s.changed) == 1 {
			s.cross(s.crossed)
		}
	}
}

// bubble arms the timer in a bubble.
func (s *shard) bubble(t *Timer, d time.Duration, deadline uint64) {
	if s.owns(t) {
		s.disown(t)
	}
	timer := s.bubbles[t]
	if timer == nil {
		if t.failed = s.count(t); t.failed != 0 {
			return
		}
		if s.bubbles == nil {
			s.bubbles = make(map[*Timer]*time.Timer)
		}
	}
	t.deadline = deadline
	if timer != nil {
		timer.Reset(d)
	} else {
		s.bubbles[t] = time.AfterFunc(d, func() { s.ring(t) })
	}
}

// leave says that the timer is not pending in a bubble any more.
func (s *shard) leave(t *Timer) {
	s.timers.uncount()
	delete(s.bubbles, t)
}

// ring is what a bubble calls. The timer may have been stopped, or reset, meanwhile.
func (s *shard) ring(t *Timer) {
	s.Lock()
	timer := s.bubbles[t]
	now, _ := s.timers.now()
	if timer == nil || now < t.deadline {
		s.Unlock()
		return
	}
	if t.period != 0 {
		t.advance(now)
		timer.Reset(time.Duration(t.deadline - now))
	} else {
		s.leave(t)
	}
	if t.sends {
		t.call()
	}
	s.Unlock()
	if !t.sends {
		t.call()
	}
}

// count says that one more timer is pending, if there is room for it.
func (s *shard) count(t *Timer) failure {
	switch timers := s.timers; {
	case t.call == nil:
		return failure(syscall.EINVAL)
	case s.closed:
		return wheelClosed
	case timers.limit > 0 && timers.pending.Add(1) > timers.limit:
		timers.pending.Add(-1)
		return failure(syscall.ENOSPC)
	}
	return 0
}

// own gives the timer a slot.
func (s *shard) own(t *Timer) failure {
	if failed := s.count(t); failed != 0 {
		return failed
	}
	timers := s.timers
	if n := len(s.free); n > 0 {
		t.slot, s.free = s.free[n-1], s.free[:n-1]
	} else {
		n := uint32(len(s.slots))
		shard := uint64((uintptr(unsafe.Pointer(s)) - uintptr(unsafe.Pointer(&timers.shards))) /
			unsafe.Sizeof(shard{}))
		handle, err := timers.wheel.Setup(uint64(n)*shards + shard)
		if err != nil {
			timers.uncount()
			return reason(err)
		}
		t.slot, s.slots = n, append(s.slots, slot{handle: handle})
	}
	s.slots[t.slot].owner = t
	return 0
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

// change notes a slot that C does not know any more. The delay is the time until C must. The
// time is 0 if other slots have changed and nothing else wants it.
func (s *shard) change(i uint32, delay, now uint64) {
	isNew := !s.slots[i].changed
	if isNew {
		s.slots[i].changed = true
		s.changed = append(s.changed, i)
	}
	n := len(s.changed)
	quiet := n == 1 && now > s.crossed+uint64(later)
	switch {
	case delay < uint64(soon) || quiet:
		s.cross(now)
	case n >= gather:
		if now, bubble := s.timers.now(); !bubble {
			s.cross(now)
		}
	case n == 1 && isNew:
		s.timers.wake(now+uint64(later), now)
	}
}

// cross tells C what has changed.
func (s *shard) cross(now uint64) {
	if len(s.changed) == 0 {
		return
	}
	s.crossed = now
	earliest := never
	for _, i := range s.changed {
		slot := &s.slots[i]
		slot.changed = false
		if slot.owner != nil {
			s.arm.add(i, slot.handle)
			s.arm.times = append(s.arm.times, hwheel.At(slot.owner.deadline))
			if slot.owner.deadline < earliest {
				earliest = slot.owner.deadline
			}
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
		s.timers.wake(now+uint64(later), now)
	}
	if earliest < s.timers.alarm.at.Load() {
		s.timers.plan() // C knows by how much a tick is later.
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

// due calls the functions of a batch, and sends times. A slot may have another owner than
// when C took the event, or its owner another deadline: it is not called before that.
func (t *Timers) due(events []hwheel.Event) {
	now, _ := t.now()
	for i := range events {
		s, n := &t.shards[events[i].Cookie%shards], uint32(events[i].Cookie/shards)
		s.Lock()
		if n < uint32(len(s.slots)) {
			if owner := s.slots[n].owner; owner != nil && owner.deadline <= now {
				s.fire(owner, now)
			}
		}
		s.Unlock()
	}
}

// advance sets the next time of a ticker that is to come.
func (t *Timer) advance(now uint64) {
	t.deadline += t.period * (1 + (now-t.deadline)/t.period)
	if t.deadline > never {
		t.deadline = never
	}
}

func (s *shard) fire(t *Timer, now uint64) {
	if t.period != 0 {
		t.advance(now)
		s.change(t.slot, t.deadline-now, now)
		t.call()
		return
	}
	s.release(t)
	if t.sends {
		t.call()
	} else {
		go t.call()
	}
}
