package guard

import (
	"container/heap"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// watchdogPulse is how long the watchdog sleeps at most while anything is held: timers
// stand still while the machine is suspended, and deadlines do not.
const watchdogPulse = 250 * time.Millisecond

// watchdog renews every tenure of a Guard and ends those that cannot be trusted any
// more. One goroutine keeps the schedule; it never waits for the store. Renewals go out
// in batches, on at most renewSenders goroutines.
type watchdog struct {
	g    *Guard
	wake chan struct{} // one slot: look at the heap again
	quit chan struct{}

	mu      sync.Mutex
	tenures tenureHeap
	asleep  clock.Instant // until when the goroutine sleeps
	used    bool          // something was watched since it looked last
	due     []*tenure     // to be sent
	senders int
}

func newWatchdog(g *Guard) *watchdog {
	return &watchdog{g: g, wake: make(chan struct{}, 1), quit: make(chan struct{})}
}

// watch begins to look after a tenure for a holder.
func (w *watchdog) watch(t *tenure, h holder, maxHold time.Duration, metadata string) {
	w.mu.Lock()
	t.holder, t.metadata, t.holdUntil, t.renewing = h, metadata, 0, false
	if maxHold > 0 {
		t.holdUntil = clock.Now().Add(min(maxHold, clock.Forever))
	}
	heap.Push(&w.tenures, t)
	w.used = true
	late := t.next() < w.asleep
	w.mu.Unlock()
	if late {
		w.poke()
	}
	if denied := t.denied.Load(); denied != nil {
		w.end(t, *denied)
	}
}

// limit is MaxHold for a tenure that is watched already. One that is over stays so.
func (w *watchdog) limit(t *tenure, until clock.Instant) {
	w.mu.Lock()
	watched := t.index >= 0
	if watched {
		t.holdUntil = until
		heap.Fix(&w.tenures, t.index)
	}
	late := watched && t.next() < w.asleep
	w.mu.Unlock()
	if late {
		w.poke()
	}
}

// drop ends the watch. After it, nothing renews the tenure, and what was in flight is
// ignored. It returns the reason if the tenure was over already.
func (w *watchdog) drop(t *tenure) (cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.ended = clock.Now()
	cause = t.verdict(t.ended)
	w.finish(t, cause)
	return cause
}

// check looks at the clock. It returns the reason if the tenure is over.
func (w *watchdog) check(t *tenure) (cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.verdict(clock.Now())
}

// deadlineOf gives the instant until which the tenure is certain.
func (w *watchdog) deadlineOf(t *tenure) clock.Instant {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.deadline
}

// end tells the tenure's holder that it is lost: the one that it has, or else the next.
func (w *watchdog) end(t *tenure, cause error) {
	w.mu.Lock()
	watched, h := t.index >= 0, t.holder
	if !watched {
		t.denied.CompareAndSwap(nil, &cause)
	}
	w.finish(t, cause)
	w.mu.Unlock()
	if watched {
		h.lost(cause)
	}
}

// endAll ends every tenure.
func (w *watchdog) endAll(cause error) {
	w.mu.Lock()
	all := w.tenures
	w.tenures = nil
	for _, t := range all {
		t.index, t.cause = -1, cause
	}
	w.mu.Unlock()
	for _, t := range all {
		t.holder.lost(cause)
	}
}

// finish takes a tenure off the watch. It needs w.mu.
func (w *watchdog) finish(t *tenure, cause error) {
	if t.index >= 0 {
		heap.Remove(&w.tenures, t.index)
		t.cause = cause
	}
}

func (w *watchdog) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watchdog) run() {
	timer := time.NewTimer(watchdogPulse)
	defer timer.Stop()
	for {
		w.pass(timer)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.quit:
			return
		}
	}
}

// pass ends what is over, hands what is due to the senders, and sets the timer.
func (w *watchdog) pass(timer *time.Timer) {
	var over []*tenure
	var causes []error
	w.mu.Lock()
	at := clock.Now()
	if len(w.tenures) > 0 {
		w.g.presence.touch(at)
	}
	for len(w.tenures) > 0 {
		t := w.tenures[0]
		if t.next() > at && !t.renewalDue(at.Add(t.slack())) {
			break
		}
		if cause := t.overBy(at); cause != nil {
			w.finish(t, cause)
			over, causes = append(over, t), append(causes, cause)
			continue
		}
		t.renewing = true
		w.due = append(w.due, t)
		heap.Fix(&w.tenures, t.index)
	}
	w.startSenders()
	w.schedule(timer, at)
	w.mu.Unlock()
	for i, t := range over {
		t.holder.lost(causes[i])
	}
}

// schedule needs w.mu. While locks come and go, the goroutine is awake now and then even
// when nothing is held, so that not each of them has to wake it.
func (w *watchdog) schedule(timer *time.Timer, at clock.Instant) {
	used := w.used
	w.used = false
	switch {
	case len(w.tenures) > 0:
		w.asleep = min(at.Add(watchdogPulse), w.tenures[0].next())
	case used:
		w.asleep = at.Add(watchdogPulse)
	default:
		w.asleep = at.Add(clock.Forever)
		timer.Stop()
		return
	}
	timer.Reset(max(0, w.asleep.Sub(at)))
}
