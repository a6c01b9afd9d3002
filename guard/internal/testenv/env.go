package testenv

import (
	"bytes"
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Patience is how long the tests on a real Redis wait for what must happen: far longer than the rules
// promise, and shorter than the default ttl, which would hide a bug.
const Patience = 20 * time.Second

// Env is a Guard that reaches a real Redis through a proxy, with a client that has
// go-redis's default options.
type Env struct {
	*guard.Guard
	Server *redistest.Server
	Proxy  *redistest.Proxy
	Client *redis.Client // the Guard's, through the proxy
	Direct *redis.Client // past the proxy
	Seen   *Watcher
}

// New makes a Guard with a proxy of its own.
func New(t *testing.T, s *redistest.Server, opts ...guard.Option) *Env {
	t.Helper()
	proxy := redistest.NewProxy(t, s.Addr())
	return NewOn(t, s, proxy, proxy.Client(t), opts...)
}

// NewOn is New with a proxy and a client that are there already.
func NewOn(t *testing.T, s *redistest.Server, proxy *redistest.Proxy, client *redis.Client, opts ...guard.Option) *Env {
	t.Helper()
	r := &Env{Server: s, Proxy: proxy, Client: client, Direct: s.Client(t), Seen: NewWatcher()}
	t.Cleanup(func() { r.Seen.Report(t) })
	if s != redistest.Shared(t) { // the shared server is checked when all tests have ended
		t.Cleanup(func() { r.LeavesNothing(t) })
	}
	for _, name := range []string{"acquire", "renew", "release"} {
		require.NoError(t, r.Direct.ScriptLoad(t.Context(), ScriptSource(name)).Err())
	}
	r.Guard = GuardOn(t, client, append(opts, guard.Observe(r.Seen))...)
	return r
}

// GuardOn makes a Guard that is closed when t ends.
func GuardOn(t *testing.T, client redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// Hash is what Redis has under the lock of key.
func (r *Env) Hash(t *testing.T, key string) map[string]string {
	t.Helper()
	hash, err := r.Direct.HGetAll(context.WithoutCancel(t.Context()), LockOf(key)).Result()
	require.NoError(t, err)
	return hash
}

// Depth is the hash counter of the one owner of key, empty if the lock is free.
func (r *Env) Depth(t *testing.T, key string) string {
	t.Helper()
	var depths []string
	for field, value := range r.Hash(t, key) {
		if !strings.HasPrefix(field, "@") {
			depth, _, _ := strings.Cut(value, " ")
			depths = append(depths, depth)
		}
	}
	return strings.Join(depths, " and ")
}

// Gone waits until key is free.
func (r *Env) Gone(t *testing.T, key string) {
	t.Helper()
	Eventually(t, func() bool { return r.Depth(t, key) == "" }, "the lock is still taken")
}

// Queue returns the owners that wait for key in Redis, and their places.
func (r *Env) Queue(t *testing.T, key string) []redis.Z {
	t.Helper()
	queue, err := r.Direct.ZRangeByScoreWithScores(context.WithoutCancel(t.Context()), LockOf(key)+":queue",
		&redis.ZRangeBy{Min: "(0", Max: "+inf"}).Result()
	require.NoError(t, err)
	return queue
}

// TakenByAnother has another Guard hold key until free is called.
func (r *Env) TakenByAnother(t *testing.T, key string) (free func()) {
	t.Helper()
	l, err := GuardOn(t, r.Direct).Acquire(t.Context(), guard.Key(key))
	require.NoError(t, err)
	return func() { require.NoError(t, l.Release(context.WithoutCancel(t.Context()))) }
}

// LeavesNothing says that there is nothing in Redis but the owners that ended and
// are remembered for a while.
func (r *Env) LeavesNothing(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	left := func() (left []string) {
		keys, err := r.Direct.Keys(ctx, "redlatch:*").Result()
		require.NoError(t, err)
		for _, key := range keys {
			remembers := strings.HasSuffix(key, ":ended") || strings.HasPrefix(key, "redlatch:instance:")
			if !remembers || r.Direct.PTTL(ctx, key).Val() == -1 {
				left = append(left, key)
			}
		}
		return left
	}
	Eventually(t, func() bool { return len(left()) == 0 }, "keys are left")
}

// Lose has the replies to the next n requests that match lost, and each time the
// connection cut. The channels are closed when it happened.
func (r *Env) Lose(match func([]byte) bool, n int) []<-chan struct{} {
	lost := make([]<-chan struct{}, n)
	for i := range lost {
		lost[i] = r.Proxy.SwallowReply(match, 1)
	}
	return lost
}

// HoldBack keeps the next request that matches from the server, until land has it
// arrive after all, and waits until the server has answered it. The answer is lost.
func (r *Env) HoldBack(match func([]byte) bool) (held <-chan struct{}, land func(t *testing.T)) {
	held, release := r.Proxy.HoldRequest(match)
	return held, func(t *testing.T) {
		t.Helper()
		landed := r.Proxy.SwallowReply(match, 1)
		release()
		Await(t, landed)
	}
}

// LockOf is the key of a lock in Redis.
func LockOf(key string) string { return "redlatch:{" + key + "}" }

var sources sync.Map // of scripts, by name: to make one takes some ms under the race detector

// ScriptSource returns a script as it is sent: with what it includes.
func ScriptSource(script string) string {
	source, known := sources.Load(script)
	if !known {
		source = redisstore.Load(embed.FS{}, script).Source
		sources.Store(script, source)
	}
	return source.(string)
}

// RunsScript matches the requests that run a script, by name or in full.
func RunsScript(t *testing.T, script string) func([]byte) bool {
	t.Helper()
	text := ScriptSource(script)
	sum := sha1.Sum([]byte(text))
	byName, inFull := redistest.Contains(hex.EncodeToString(sum[:])), redistest.Contains(text)
	return func(req []byte) bool { return byName(req) || inFull(req) }
}

// Watcher is an Observer that can be waited for.
type Watcher struct {
	guard.NopObserver
	Mu      sync.Mutex
	Events  map[guard.EventKind]int
	Errors  []string      // of failures, in case the test fails
	Changed chan struct{} // closed at the next event
}

// NewWatcher makes a watcher that saw nothing yet.
func NewWatcher() *Watcher {
	return &Watcher{Events: map[guard.EventKind]int{}, Changed: make(chan struct{})}
}

// Event implements guard.Observer.
func (w *Watcher) Event(_ context.Context, l guard.Lock, e guard.Event) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Events[e.Kind]++
	if e.Err != nil && len(w.Errors) < 50 {
		w.Errors = append(w.Errors, fmt.Sprintf("%s %q %v %s: %v", time.Now().Format("05.000"), l.Key, e.Kind, e.Op, e.Err))
	}
	close(w.Changed)
	w.Changed = make(chan struct{})
}

// Report logs the failures that were seen, if t failed.
func (w *Watcher) Report(t *testing.T) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if t.Failed() && len(w.Errors) > 0 {
		t.Log("failures seen:\n" + strings.Join(w.Errors, "\n"))
	}
}

// Count says how many events of a kind there were, and returns a channel for the next event.
func (w *Watcher) Count(kind guard.EventKind) (n int, changed <-chan struct{}) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.Events[kind], w.Changed
}

// More waits for n more events of a kind.
func (w *Watcher) More(t *testing.T, kind guard.EventKind, n int) {
	t.Helper()
	have, _ := w.Count(kind)
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for want := have + n; ; {
		have, changed := w.Count(kind)
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

// Await waits for each signal, up to Patience.
func Await(t *testing.T, signals ...<-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for _, signal := range signals {
		select {
		case <-signal:
		case <-timer.C:
			require.FailNow(t, "it did not happen in time")
		}
	}
}

// Eventually waits until condition is true, up to Patience.
func Eventually(t *testing.T, condition func() bool, message string) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(Patience); !condition(); <-ticker.C {
		require.True(t, time.Now().Before(deadline), message)
	}
}

// InBackground runs a call whose result is waited for later.
func InBackground[T any](call func() T) (result func(t *testing.T) T) {
	results := make(chan T, 1)
	go func() { results <- call() }()
	return func(t *testing.T) T {
		t.Helper()
		select {
		case v := <-results:
			return v
		case <-time.After(Patience):
			require.FailNow(t, "the call did not return")
			panic("not reached")
		}
	}
}

// Tombstones waits until Redis knows that n owners of key have ended.
func (r *Env) Tombstones(t *testing.T, key string, n int64) {
	t.Helper()
	Eventually(t, func() bool {
		return r.Direct.ZCard(t.Context(), LockOf(key)+":ended").Val() == n
	}, "no tombstone")
}

// Stat reads a number from INFO.
func (r *Env) Stat(t *testing.T, name string) int {
	t.Helper()
	info, err := r.Direct.Info(t.Context(), "stats", "clients", "commandstats").Result()
	require.NoError(t, err)
	_, after, found := strings.Cut(info, name)
	require.True(t, found, name)
	digits := after[:strings.IndexFunc(after, func(c rune) bool { return c < '0' || c > '9' })]
	n, err := strconv.Atoi(digits)
	require.NoError(t, err)
	return n
}

// Locks counts the locks that are held in all of Redis.
func (r *Env) Locks(t *testing.T) int {
	t.Helper()
	n := 0
	it := r.Direct.ScanType(context.WithoutCancel(t.Context()), 0, "redlatch:{*}", 1000, "hash").Iterator()
	for it.Next(t.Context()) {
		n++
	}
	require.NoError(t, it.Err())
	return n
}

// SetsDepth matches the requests of re-entry that set the hash counter to a depth below 10:
// renewals with a ttl of 0. There is no metadata in the tests.
func SetsDepth(t *testing.T, depth byte) func([]byte) bool {
	t.Helper()
	script := RunsScript(t, "renew")
	tail := []byte("$1\r\n0\r\n$1\r\n" + string('0'+depth) + "\r\n$0\r\n\r\n")
	return func(req []byte) bool { return script(req) && bytes.HasSuffix(req, tail) }
}

// Both matches what both of two match.
func Both(a, b func([]byte) bool) func([]byte) bool {
	return func(req []byte) bool { return a(req) && b(req) }
}

// Lateness begins to measure how late timers are at worst, until you call what it returns.
func Lateness() (stop func() time.Duration) {
	quit, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		for {
			asked := time.Now()
			select {
			case <-time.After(time.Millisecond):
				most = max(most, time.Since(asked)-time.Millisecond)
			case <-quit:
				worst <- most
				return
			}
		}
	}()
	return sync.OnceValue(func() time.Duration {
		close(quit)
		return <-worst
	})
}

// Within begins a wait. The func that it returns ends it, and fails the test if it took longer
// than most and twice what timers were late meanwhile.
func Within(t testing.TB, most time.Duration) (end func()) {
	t.Helper()
	late, begun := Lateness(), time.Now()
	t.Cleanup(func() { late() })
	return func() {
		t.Helper()
		took, machine := time.Since(begun), late()
		assert.Lessf(t, took, most+2*machine, "timers were late by up to %v", machine)
	}
}
