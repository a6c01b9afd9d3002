package watchdog

import (
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

	wake chan struct{} // one slot: look at the grants again
	quit chan struct{}

	mu      sync.Mutex
	grants  map[*Grant]bool // that are watched
	asleep  clock.Instant   // until when the goroutine sleeps
	due     []*Grant        // to be sent
	allAt   clock.Instant   // when RenewAll had, or will have, all grants renewed
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
	w := &Watchdog{
		Config: c, wake: make(chan struct{}, 1), quit: make(chan struct{}), grants: make(map[*Grant]bool), asleep: clock.Never,
	}
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
	defer w.mu.Unlock()
	at := clock.Now()
	if len(w.grants) == 0 || w.allAt > at {
		return
	}
	w.allAt = max(at, w.allAt.Add(allEvery))
	for t := range w.grants {
		t.renewAt = min(t.renewAt, w.allAt)
		w.poke(t)
	}
}

// EndAll ends every grant.
func (w *Watchdog) EndAll(cause error) {
	var lost losses
	w.mu.Lock()
	for t := range w.grants {
		w.end(t, cause, &lost)
	}
	w.mu.Unlock()
	lost.report(w)
}

// losses are holders whose grants ended. All work ends before the first observer is notified.
type losses struct {
	holders []Holder
	causes  []error
}

// end takes a grant off the watch, and adds its holders to lost. It needs w.mu.
func (w *Watchdog) end(t *Grant, cause error, lost *losses) {
	delete(w.grants, t)
	t.cause = cause
	for _, h := range t.holders {
		lost.holders, lost.causes = append(lost.holders, h), append(lost.causes, cause)
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

// report notifies observers on goroutines, as they may block.
func (l *losses) report(w *Watchdog) {
	for _, h := range l.cancel() {
		if !w.Tasks.Go(h.ReportLoss) {
			h.ReportLoss()
		}
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
	for t := range w.grants {
		if t.endedBy(at) != nil {
			continue
		}
		for _, h := range t.holders {
			all = append(all, Held{h, max(t.Begun, t.ended), t.deadline})
		}
	}
	return all
}

// poke wakes the goroutine if it sleeps for longer than it may for the sake of t. It needs w.mu.
func (w *Watchdog) poke(t *Grant) {
	if t.next() >= w.asleep {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watchdog) run() {
	timer := time.NewTimer(pulse)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			w.look(timer, false)
		case <-w.wake:
			w.look(timer, true)
		case <-w.quit:
			return
		}
	}
}

// look ends expired grants, gives due renewals to the senders, and sets the timer. While locks come and go, the
// goroutine looks now and then though nothing is held, so that not each of them has to wake it.
func (w *Watchdog) look(timer *time.Timer, poked bool) {
	var lost losses
	w.mu.Lock()
	at := clock.Now()
	if len(w.grants) > 0 {
		w.Awake(at)
	}
	w.asleep = at.Add(pulse)
	for t := range w.grants {
		if cause := t.endedBy(at); cause != nil {
			w.end(t, cause, &lost)
		} else {
			if !t.renewing && t.renewAt <= at.Add(t.slack()) {
				t.renewing = true
				w.due = append(w.due, t)
			}
			w.asleep = min(w.asleep, t.next())
		}
	}
	w.startSender()
	if len(w.grants) > 0 || poked {
		timer.Reset(w.asleep.Sub(at))
	} else {
		w.asleep = clock.Never // until it is poked
	}
	w.mu.Unlock()
	lost.report(w)
}
