package adaptertest

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// Build makes a server of the framework for s.Path, for POST and HEAD, with the adapter around that route. The server
// lets panics through.
type Build func(tb testing.TB, s Setup) http.Handler

// Setup is what a server is made with.
type Setup struct {
	Guard        *guard.Guard
	Path         string                 // "" for /orders/{id}/pay
	Template     string                 // for Lock
	Key          func() (string, error) // for LockFunc instead, if set
	And          []string
	Options      []guard.LockOption
	BusyStatus   int // 0 for none
	Unlocked     bool
	OnError      func(error) // called by an OnError that then answers by WriteError; nil for none
	Table        bool        // by Annotate, not Middleware
	Keep         time.Duration
	Once         []guard.OnceOption // for Once, if there is a Keep
	SharedAnswer bool
	Values       map[string]func(*http.Request) (string, error)

	// Work is what the route does.
	Work http.HandlerFunc
	// InCode, if set, runs after Work. The handler answers its error by the adapter's function for
	// locks taken in code.
	InCode func(ctx context.Context) error
	// Fail is what its handler then returns, if handlers return errors.
	Fail error
	// Unguarded leaves the adapter out.
	Unguarded bool
}

// Rule is the Rule of s.
func (s Setup) Rule() guardhttp.Rule {
	rule := guardhttp.LockFunc(nil, s.Options...)
	switch {
	case s.Key != nil:
		rule = guardhttp.LockFunc(func(*http.Request) (string, error) { return s.Key() }, s.Options...)
	case s.Template != "":
		rule = guardhttp.Lock(s.Template, s.Options...)
	}
	for _, template := range s.And {
		rule = rule.And(template)
	}
	if s.Keep != 0 {
		rule = rule.Once(s.Keep, s.Once...)
	}
	if s.SharedAnswer {
		rule = rule.SharedAnswer()
	}
	for name, value := range s.Values {
		rule = rule.Value(name, value)
	}
	if s.OnError != nil {
		rule = rule.OnError(func(w http.ResponseWriter, r *http.Request, err error) {
			s.OnError(err)
			guardhttp.WriteError(w, r, err)
		})
	}
	return rule.BusyStatus(s.BusyStatus).Unlocked(func(*http.Request) bool { return s.Unlocked })
}

// Methods are those of the route.
var Methods = []string{http.MethodPost, http.MethodHead}

// Route gives the path of the route as net/http and chi write it.
func (s Setup) Route() string { return cmp.Or(s.Path, "/orders/{id}/pay") }

// Colons writes the path of a route as echo and gin do.
func Colons(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}

// Suite runs all tests of an adapter. t is not parallel: the tests of the log replace slog's default logger.
func Suite(t *testing.T, build Build) {
	logs(t, build)
	logsLoss(t, build)
	for name, table := range map[string]bool{"Middleware": false, "Annotate": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build := func(tb testing.TB, s Setup) http.Handler {
				s.Table = table
				return build(tb, s)
			}
			for name, part := range map[string]func(*testing.T, Build){
				"Answers": answers, "Keys": keys, "Work": work, "Rules": rules, "Lost": lost, "Once": once,
				"Unchanged": unchanged, "OnError": onError, "InCode": inCode, "Exclusion": exclusion,
			} {
				t.Run(name, func(t *testing.T) { t.Parallel(); part(t, build) })
			}
		})
	}
}

// patience is for whatever has to happen in the end.
const patience = 10 * time.Second

// waits signals that a request began to wait for a lock.
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

// Bench is a Guard on a store that a test can break.
type Bench struct {
	*guard.Guard
	Store *guardtest.Store
	waits *waits
}

// NewBench makes a Bench with a ttl of 100 ms.
func NewBench(tb testing.TB, opts ...guard.Option) *Bench {
	tb.Helper()
	store, waits := guardtest.NewStore(), &waits{begun: make(chan struct{}, 1)}
	opts = append([]guard.Option{guard.TTL(100 * time.Millisecond), guard.StoreTimeout(50 * time.Millisecond), guard.Observe(waits)}, opts...)
	g, err := guard.NewWithStore(store, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = g.Close() })
	return &Bench{g, store, waits}
}

// Hold keeps key busy until tb ends.
func (b *Bench) Hold(tb testing.TB, key string, opts ...guard.LockOption) *guard.Lease {
	tb.Helper()
	lease, err := b.Acquire(context.Background(), guard.Key(key), append(opts, guard.TTL(guard.DefaultTTL), guard.Metadata("secret"))...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = lease.Release(context.Background()) })
	<-b.waits.begun
	return lease
}

// Lose ends the lock of the work of ctx, and returns when ctx has ended.
func (b *Bench) Lose(ctx context.Context, key string) {
	b.Store.Drop(key)
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
