package cohort

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// Config is what a Table needs.
type Config struct {
	Store    guardstore.Store
	Calls    *retry.Policy // of each command
	Tasks    *task.Group   // owns its goroutines
	Instance string        // the beginning of each owner; without '-'
	Handover time.Duration // for how long after its grant a lock passes from caller to caller

	// Abort, once closed, ends all asynchronous commands.
	Abort <-chan struct{}

	// Awake is called while callers wait or hold, at least every 250 ms while a lock is held. It
	// must not block.
	Awake func(at clock.Instant)
}

// Why an Acquire got no lock, besides a *RecordedError and a *retry.Error.
var (
	ErrBusy   = errors.New("busy, and the wait has ended")
	ErrClosed = errors.New("closed")
	ErrEnded  = errors.New("the context ended")
)

// RecordedError says that there is nothing to run, and why not.
type RecordedError struct{ Record *guardstore.Record }

// Error gives nothing of the record.
func (*RecordedError) Error() string { return "the record says that there is nothing to run" }

// Table has a cohort for each key that its process holds or waits for. Its methods may be called
// from many goroutines.
type Table struct {
	Config

	watchdog *watchdog.Watchdog
	notifier *notifier
	owners   atomic.Uint64 // made so far
	alone    atomic.Uint64 // calls that tolerate others, see id
	waiters  sync.Pool     // of waiters that are in no queue

	mu      sync.Mutex // guards the map and every cohort in it
	cohorts map[id]*cohort
}

// New makes a Table. It sends nothing. Close ends it.
func New(c Config) *Table {
	t := &Table{cohorts: make(map[id]*cohort)}
	calls, onFailure := *c.Calls, c.Calls.OnFailure
	calls.OnFailure = func(ctx context.Context, op string, label retry.Label, err error) {
		t.watchdog.RenewAll() // what made the command fail may have lost the holds of this process
		if onFailure != nil {
			onFailure(ctx, op, label, err)
		}
	}
	c.Calls = &calls
	t.Config = c
	t.watchdog = watchdog.New(watchdog.Config{Store: c.Store, Tasks: c.Tasks, Awake: c.Awake})
	t.notifier = newNotifier(t)
	return t
}

// NewOwner makes an owner. No process ever makes the same one again.
func (t *Table) NewOwner(limit guardstore.Limit) string {
	return guardstore.NewOwner(t.Instance, limit, t.owners.Add(1))
}

// Dismiss ends the wait of the callers whose stop is closed. They do not select on stop themselves:
// that would make each wait slower.
func (t *Table) Dismiss() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.cohorts {
		c.endWaits(ErrClosed, func(w *waiter) bool { return task.IsClosed(w.stop) })
	}
}

// Close ends all holds with a cause, and the subscription. Dismiss ends waits.
func (t *Table) Close(cause error) {
	t.watchdog.EndAll(cause)
	t.watchdog.Close()
	t.notifier.close()
}

// Held returns the holds that are watched and have not ended, in no order.
func (t *Table) Held() []watchdog.Held { return t.watchdog.All() }
