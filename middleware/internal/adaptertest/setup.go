package adaptertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Setup is what an adapter's middleware is made with.
type Setup struct {
	Guard      *guard.Guard
	Template   string
	Key        func() (string, error) // instead of the template, if set
	Options    []guard.LockOption
	BusyStatus int // 0 for none
	Skip       bool
	OnError    bool // give an OnError that answers as the adapter does

	// Work is what the route does.
	Work http.HandlerFunc
	// Fail is what its handler then returns, if handlers return errors.
	Fail error
	// Unguarded leaves the adapter out.
	Unguarded bool
}

// Build makes a server of /orders/{id}/pay, for POST and HEAD, with the adapter around
// that route only. It lets panics through.
type Build func(tb testing.TB, s Setup) http.Handler

// Suite runs everything that needs no Redis.
func Suite(t *testing.T, build Build) {
	t.Run("Answers", func(t *testing.T) { t.Parallel(); answers(t, build) })
	t.Run("Keys", func(t *testing.T) { t.Parallel(); keys(t, build) })
	t.Run("Work", func(t *testing.T) { t.Parallel(); work(t, build) })
}

// OnRedis runs what needs a real one. The package has a TestMain that calls
// redistest.Run.
func OnRedis(t *testing.T, build Build) {
	t.Run("Exclusion", func(t *testing.T) { t.Parallel(); exclusion(t, build) })
	t.Run("Unchanged", func(t *testing.T) { t.Parallel(); unchanged(t, build) })
	t.Run("Lost", func(t *testing.T) { t.Parallel(); lost(t, build) })
	t.Run("Outages", func(t *testing.T) { t.Parallel(); outages(t, build) })
}

func guardOn(t *testing.T, server *redistest.Server, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(server.Client(t), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// waits signals that somebody began to wait for a lock.
type waits struct {
	guard.NopObserver
	begun chan struct{}
}

func (w *waits) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	select {
	case w.begun <- struct{}{}:
	default:
	}
	return ctx
}

// bench is a Guard on a store that a test can break.
type bench struct {
	*guard.Guard
	store *guardtest.Store
	waits *waits
}

func newBench(tb testing.TB, opts ...guard.Option) *bench {
	tb.Helper()
	b := &bench{store: guardtest.NewStore(), waits: &waits{begun: make(chan struct{}, 1)}}
	opts = append([]guard.Option{guard.TTL(guard.MinTTL), guard.Observe(b.waits)}, opts...)
	g, err := guard.NewWithStore(b.store, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = g.Close() })
	b.Guard = g
	return b
}

// hold keeps key busy until tb ends.
func (b *bench) hold(tb testing.TB, key string, opts ...guard.LockOption) {
	tb.Helper()
	lease, err := b.Acquire(context.Background(), guard.Key(key), append(opts, guard.TTL(guard.DefaultTTL), guard.Metadata("secret"))...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = lease.Release(context.Background()) })
	<-b.waits.begun
}

// lose takes the lock of the work that ctx belongs to away, and returns when the work
// has been told.
func (b *bench) lose(ctx context.Context, key string) {
	b.store.Drop(key)
	<-ctx.Done()
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

func pay(id string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/orders/"+id+"/pay", nil)
}
