package tasktest

import (
	"context"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/middleware/internal/tasklock"
)

// Setup has the parts of a server of tasks: the adapter around a handler.
type Setup struct {
	Guard *guard.Guard
	Rule  tasklock.Rule
	Work  func(ctx context.Context) error // the handler
	Seen  func(error)                     // gets the error of the adapter, after each run
}

// orders is the Rule of most tests. A Rule belongs to no queue.
func orders(opts ...guard.LockOption) tasklock.Rule {
	return tasklock.New("tasktest", 0).Lock("order:{order_id}", opts)
}

// State is the state of a task in its framework.
type State struct {
	Done     bool
	GivenUp  bool // it will not run again
	Failures int  // runs that count against it
}

// Queue is a queue of a framework, on a real server.
type Queue interface {
	// Serve starts one more server of the tasks, until the test ends.
	Serve(t *testing.T, s Setup)
	// Add adds a task with a payload in JSON and one header.
	Add(t *testing.T, payload, header, value string) (state func() State)
}

// Suite is the suite that every adapter for tasks passes. newQueue makes a queue for each
// test. The package has a TestMain that calls redistest.Run.
func Suite(t *testing.T, newQueue func(t *testing.T) Queue) {
	for name, test := range map[string]func(*testing.T, Queue){
		"one at a time":                      exclusion,
		"keys":                               keys,
		"busy":                               busy,
		"busy: dropped":                      dropped,
		"busy: given up":                     givenUp,
		"lost":                               lost,
		"without Redis":                      outage,
		"closed":                             closed,
		"without a key":                      withoutKey,
		"panics":                             panics,
		"skipped":                            skipped,
		"guard's error changed":              onError,
		"once: a second run is acknowledged": onceDone,
		"once: in progress is busy":          onceInProgress,
		"once: the next learns of a crash":   onceCrash,
		"once: no run follows a crash":       atMostOnce,
		"once: a key acknowledges no other's work": onceOtherInput,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, newQueue(t)) })
	}
}

// Main runs the tests of a package, eight at a time: they wait for queues most of the time.
func Main(m *testing.M, run func(*testing.M) int) int {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	return run(m)
}

// patience bounds a wait for a task that comes back in seconds.
const patience = 30 * time.Second

const payOrder7 = `{"order_id":7}`

func add(t *testing.T, q Queue, payload string) (state func() State) {
	t.Helper()
	return q.Add(t, payload, "tenant", "acme")
}

func eventually(t *testing.T, state func() State, want func(State) bool, says string) State {
	t.Helper()
	var got State
	require.Eventually(t, func() bool { got = state(); return want(got) }, patience, 10*time.Millisecond, says)
	return got
}

func eventuallyGivenUp(t *testing.T, state func() State) {
	t.Helper()
	eventually(t, state, func(s State) bool { return s.GivenUp }, "it is not given up")
}

func eventuallyDone(t *testing.T, state func() State) State {
	t.Helper()
	return eventually(t, state, func(s State) bool { return s.Done }, "it is never done")
}

// newGuard makes a Guard whose locks no other test sees.
func newGuard(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	opts = append([]guard.Option{guard.Prefix(prefix(t))}, opts...)
	return newGuardOn(t, redistest.Shared(t), opts...)
}

func prefix(t *testing.T) string { return strings.ReplaceAll(t.Name(), " ", "-") }

// ends has the errors of the adapter, run by run.
type ends chan error

func newEnds() ends { return make(chan error, 10_000) }

func (e ends) seen(err error) { e <- err }

func (e ends) next(t *testing.T) error {
	t.Helper()
	select {
	case err := <-e:
		return err
	case <-time.After(patience):
		t.Fatal("no run ends")
		return nil
	}
}

func (e ends) nextBusy(t *testing.T) *guard.BusyError {
	t.Helper()
	var busy *guard.BusyError
	require.ErrorAs(t, e.next(t), &busy)
	return busy
}

// Hold locks order:7 until release.
func Hold(t *testing.T, g *guard.Guard) (release func()) {
	t.Helper()
	lease, err := g.Acquire(context.Background(), guard.Key("order:7"), guard.Metadata("secret"))
	require.NoError(t, err)
	return func() { assert.NoError(t, lease.Release(context.Background())) }
}

// Waits is an Observer that signals that a wait for a lock begins.
type Waits struct {
	guard.NopObserver
	Begun chan struct{}
}

// NewWaits returns Waits with room for many signals.
func NewWaits() *Waits { return &Waits{Begun: make(chan struct{}, 100)} }

// WaitStart implements guard.Observer.
func (w *Waits) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	w.Begun <- struct{}{}
	return ctx
}

func never(context.Context) error { panic("ran without its lock") }

func newGuardOn(t *testing.T, server *redistest.Server, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(server.Client(t), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}
