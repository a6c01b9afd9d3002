package guard_test

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA1
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// patience is how long the tests on a real Redis wait for what must happen, and tick
// how often they look where nothing tells them.
const (
	patience = 15 * time.Second
	tick     = 2 * time.Millisecond
)

// rig is a Guard that reaches a real Redis through a proxy, with a client that has
// go-redis's default options.
type rig struct {
	*guard.Guard
	server *redistest.Server
	proxy  *redistest.Proxy
	client *redis.Client // the Guard's, through the proxy
	direct *redis.Client // past the proxy
	seen   *watcher
}

func newRig(t *testing.T, s *redistest.Server, opts ...guard.Option) *rig {
	t.Helper()
	proxy := redistest.NewProxy(t, s.Addr())
	return newRigOn(t, s, proxy, proxy.Client(t), opts...)
}

func newRigOn(t *testing.T, s *redistest.Server, proxy *redistest.Proxy, client *redis.Client, opts ...guard.Option) *rig {
	t.Helper()
	r := &rig{server: s, proxy: proxy, client: client, direct: s.Client(t), seen: newWatcher()}
	t.Cleanup(func() { r.seen.report(t) })
	if s != redistest.Shared(t) { // that one is looked at when all tests are over
		t.Cleanup(func() { r.leavesNothing(t) })
	}
	for _, name := range []string{"acquire", "set_depth", "renew", "release"} {
		require.NoError(t, r.direct.ScriptLoad(t.Context(), scriptSource(t, name)).Err())
	}
	r.Guard = guardOn(t, client, append(opts, guard.Observe(r.seen))...)
	return r
}

// guardOn makes a Guard that is closed when t ends.
func guardOn(t *testing.T, client redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// hash is what Redis has under the lock of key.
func (r *rig) hash(t *testing.T, key string) map[string]string {
	t.Helper()
	hash, err := r.direct.HGetAll(context.WithoutCancel(t.Context()), lockOf(key)).Result()
	require.NoError(t, err)
	return hash
}

// depth is the hash counter of the one owner of key, empty if nobody holds it.
func (r *rig) depth(t *testing.T, key string) string {
	t.Helper()
	var depths []string
	for field, value := range r.hash(t, key) {
		if !strings.HasPrefix(field, "@") {
			depths = append(depths, value)
		}
	}
	return strings.Join(depths, " and ")
}

// gone waits until nobody holds key.
func (r *rig) gone(t *testing.T, key string) {
	t.Helper()
	eventually(t, func() bool { return r.depth(t, key) == "" }, "the lock is still taken")
}

// last is the fence that Redis remembers for key, and the owner that released last.
func (r *rig) last(t *testing.T, key string) (fence, owner string) {
	t.Helper()
	last, err := r.direct.Get(context.WithoutCancel(t.Context()), lockOf(key)+":last").Result()
	if err != nil {
		require.ErrorIs(t, err, redis.Nil)
	}
	fence, owner, _ = strings.Cut(last, " ")
	return fence, owner
}

// queue gives who waits for key in Redis, and at which places.
func (r *rig) queue(t *testing.T, key string) []redis.Z {
	t.Helper()
	queue, err := r.direct.ZRangeByScoreWithScores(context.WithoutCancel(t.Context()), lockOf(key)+":queue",
		&redis.ZRangeBy{Min: "(0", Max: "+inf"}).Result()
	require.NoError(t, err)
	return queue
}

// takenByAnother has another Guard hold key until free is called.
func (r *rig) takenByAnother(t *testing.T, key string) (free func()) {
	t.Helper()
	l, err := guardOn(t, r.direct).Acquire(t.Context(), guard.Key(key))
	require.NoError(t, err)
	return func() { require.NoError(t, l.Release(context.WithoutCancel(t.Context()))) }
}

// leavesNothing says that there is nothing in Redis but the fences and the owners that
// are remembered for a while.
func (r *rig) leavesNothing(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	left := func() (left []string) {
		keys, err := r.direct.Keys(ctx, "guard:*").Result()
		require.NoError(t, err)
		for _, key := range keys {
			remembers := strings.HasSuffix(key, ":last") || strings.HasPrefix(key, "guard:instance:") || strings.HasSuffix(key, ":queue") &&
				r.direct.ZCount(ctx, key, "0", "+inf").Val() == 0
			if !remembers || r.direct.PTTL(ctx, key).Val() == -1 {
				left = append(left, key)
			}
		}
		return left
	}
	eventually(t, func() bool { return len(left()) == 0 }, "keys are left")
}

// lose has the replies to the next n requests that match lost, and each time the
// connection cut. The channels are closed when it happened.
func (r *rig) lose(match func([]byte) bool, n int) []<-chan struct{} {
	lost := make([]<-chan struct{}, n)
	for i := range lost {
		lost[i] = r.proxy.SwallowReply(match, 1)
	}
	return lost
}

// holdBack keeps the next request that matches from the server, until land has it
// arrive after all, and waits until the server has answered it. The answer is lost.
func (r *rig) holdBack(match func([]byte) bool) (held <-chan struct{}, land func(t *testing.T)) {
	held, release := r.proxy.HoldRequest(match)
	return held, func(t *testing.T) {
		t.Helper()
		landed := r.proxy.SwallowReply(match, 1)
		release()
		await(t, landed)
	}
}

func lockOf(key string) string { return "guard:{" + key + "}" }

// scriptSource gives a script as it is sent: with what it includes.
func scriptSource(t *testing.T, script string) string {
	t.Helper()
	source, known := guard.Scripts()[script]
	require.True(t, known, script)
	return source
}

// runsScript matches the requests that run a script, by name or in full.
func runsScript(t *testing.T, script string) func([]byte) bool {
	t.Helper()
	text := scriptSource(t, script)
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return either(redistest.Contains(hex.EncodeToString(sum[:])), redistest.Contains(text))
}

func either(a, b func([]byte) bool) func([]byte) bool {
	return func(req []byte) bool { return a(req) || b(req) }
}

// watcher is an Observer that can be waited for.
type watcher struct {
	guard.NopObserver
	mu      sync.Mutex
	events  map[guard.EventKind]int
	errors  []string      // of failures, in case the test fails
	changed chan struct{} // closed at the next event
}

func newWatcher() *watcher {
	return &watcher{events: map[guard.EventKind]int{}, changed: make(chan struct{})}
}

// Event implements guard.Observer.
func (w *watcher) Event(_ context.Context, l guard.Lock, e guard.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[e.Kind]++
	if e.Err != nil && len(w.errors) < 50 {
		w.errors = append(w.errors, fmt.Sprintf("%s %q %v %s: %v", time.Now().Format("05.000"), l.Key, e.Kind, e.Op, e.Err))
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watcher) report(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.Failed() && len(w.errors) > 0 {
		t.Log("failures seen:\n" + strings.Join(w.errors, "\n"))
	}
}

func (w *watcher) count(kind guard.EventKind) (n int, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events[kind], w.changed
}

// more waits for n more events of a kind.
func (w *watcher) more(t *testing.T, kind guard.EventKind, n int) {
	t.Helper()
	have, _ := w.count(kind)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for want := have + n; ; {
		have, changed := w.count(kind)
		if have >= want {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			require.FailNow(t, "the event did not come", "%v: have %d, want %d", kind, have, want)
		}
	}
}

func await(t *testing.T, signals ...<-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for _, signal := range signals {
		select {
		case <-signal:
		case <-timer.C:
			require.FailNow(t, "it did not happen in time")
		}
	}
}

func eventually(t *testing.T, condition func() bool, message string) {
	t.Helper()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-ticker.C {
		require.True(t, time.Now().Before(deadline), message)
	}
}

// inBackground runs a call whose result is waited for later.
func inBackground[T any](call func() T) (result func(t *testing.T) T) {
	results := make(chan T, 1)
	go func() { results <- call() }()
	return func(t *testing.T) T {
		t.Helper()
		select {
		case v := <-results:
			return v
		case <-time.After(patience):
			require.FailNow(t, "the call did not return")
			panic("not reached")
		}
	}
}
