package watchdog

import (
	"container/heap"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// pulse is how long the watchdog sleeps at most while anything is held: timers
// stand still while the machine is suspended, and deadlines do not.
const pulse = 250 * time.Millisecond

// Watchdog renews every grant of a Guard and ends those that cannot be trusted any
// more. One goroutine keeps the schedule; it never waits for the store. Renewals go out
// in batches, on at most Senders goroutines.
type Watchdog struct {
	Config

	wake chan struct{} // one slot: look at the heap again
	quit chan struct{}

	mu      sync.Mutex
	grants  grantHeap
	asleep  clock.Instant // until when the goroutine sleeps
	used    bool          // something was watched since it looked last
	due     []*Grant      // to be sent
	allAt   clock.Instant // when RenewAll had, or will have, all grants renewed
	senders int
}

// Config is what a Watchdog needs.
type Config struct {
	Store guardstore.Store // renews
	Tasks *task.Group      // owns its goroutines

	// Awake is called by the goroutine that keeps the schedule while anything is held, every
	// 250 ms at least. It must not block.
	Awake func(at clock.Instant)
}

// New makes a Watchdog and starts it. Close ends it.
func New(c Config) *Watchdog {
	w := &Watchdog{Config: c, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	w.Tasks.Go(w.run)
	return w
}

// Close ends the schedule. It does not wait. Nothing is renewed, or expires, after it: end what
// is watched before, by EndAll.
func (w *Watchdog) Close() { close(w.quit) }

// allEvery is how often RenewAll renews, at most.
const allEvery = time.Second

// RenewAll renews all grants now, or a second after the last time, because the store may have lost them: a
// connection broke, or the store said that it is not what it was.
func (w *Watchdog) RenewAll() {
	w.mu.Lock()
	at := clock.Now()
	due := len(w.grants) > 0 && w.allAt <= at
	if due {
		w.allAt = max(at, w.allAt.Add(allEvery))
		for _, t := range w.grants {
			t.renewAt = min(t.renewAt, w.allAt)
		}
		heap.Init(&w.grants)
	}
	w.mu.Unlock()
	if due {
		w.poke()
	}
}

// EndAll ends every grant.
func (w *Watchdog) EndAll(cause error) {
	var lost losses
	w.mu.Lock()
	all := w.grants
	w.grants = nil
	for _, t := range all {
		t.index, t.cause = -1, cause
		lost.add(t)
	}
	w.mu.Unlock()
	lost.report(w)
}

// losses are holders whose grants ended. All work ends before the first observer is notified.
type losses struct {
	holders []Holder
	causes  []error
}

// add needs Watchdog.mu.
func (l *losses) add(t *Grant) {
	for _, h := range t.holders {
		l.holders, l.causes = append(l.holders, h), append(l.causes, t.cause)
	}
}

// cancel ends the work, and returns the holders to notify.
func (l *losses) cancel() (first []Holder) {
	for i, h := range l.holders {
		if h.Cancel(l.causes[i]) {
			first = append(first, h)
		}
	}
	return first
}

// report notifies observers on a goroutine, as they may block.
func (l *losses) report(w *Watchdog) {
	first := l.cancel()
	if len(first) == 0 {
		return
	}
	report := func() {
		for _, h := range first {
			h.ReportLoss()
		}
	}
	if !w.Tasks.Go(report) {
		report()
	}
}

// Held is a grant that is watched for a holder.
type Held struct {
	Holder   Holder
	Since    clock.Instant // when the first of its present holders got it
	Deadline clock.Instant
}

// All returns the holders whose grants have not ended, in no order.
func (w *Watchdog) All() (all []Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := clock.Now()
	for _, t := range w.grants {
		if t.expiredBy(at) != nil {
			continue
		}
		for _, h := range t.holders {
			all = append(all, Held{h, max(t.Begun, t.ended), t.deadline})
		}
	}
	return all
}

// finish takes a grant off the watch. It needs w.mu.
func (w *Watchdog) finish(t *Grant, cause error) {
	if t.index >= 0 {
		heap.Remove(&w.grants, t.index)
		t.cause = cause
	}
}

func (w *Watchdog) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watchdog) run() {
	timer := time.NewTimer(pulse)
	defer timer.Stop()
	for {
		w.look(timer)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.quit:
			return
		}
	}
}

// look ends expired grants, gives due renewals to the senders, and sets the timer.
func (w *Watchdog) look(timer *time.Timer) {
	var lost losses
	w.mu.Lock()
	at := clock.Now()
	if len(w.grants) > 0 {
		w.Awake(at)
	}
	for len(w.grants) > 0 {
		t := w.grants[0]
		if t.next() > at && (t.renewing || t.renewAt > at.Add(t.slack())) {
			break
		}
		if cause := t.expiredBy(at); cause != nil {
			w.finish(t, cause)
			lost.add(t)
		} else {
			t.renewing = true
			w.due = append(w.due, t)
			heap.Fix(&w.grants, t.index)
		}
	}
	w.startSenders()
	w.schedule(timer, at)
	w.mu.Unlock()
	lost.report(w)
}

// schedule needs w.mu. While locks come and go, the goroutine is awake now and then even
// when nothing is held, so that not each of them has to wake it.
func (w *Watchdog) schedule(timer *time.Timer, at clock.Instant) {
	used := w.used
	w.used = false
	switch {
	case len(w.grants) > 0:
		w.asleep = min(at.Add(pulse), w.grants[0].next())
	case used:
		w.asleep = at.Add(pulse)
	default:
		w.asleep = at.Add(clock.Forever)
		timer.Stop()
		return
	}
	timer.Reset(w.asleep.Sub(at))
}

// grantHeap orders grants by when the watchdog has to look at them (container/heap).
type grantHeap []*Grant

func (h grantHeap) Len() int           { return len(h) }
func (h grantHeap) Less(i, j int) bool { return h[i].next() < h[j].next() }

func (h grantHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for container/heap.
func (h *grantHeap) Push(x any) {
	t := x.(*Grant)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop is for container/heap.
func (h *grantHeap) Pop() any {
	old := *h
	last := len(old) - 1
	t := old[last]
	old[last] = nil
	*h = old[:last]
	t.index = -1
	return t
}
