package guard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// What the tests of the queue on a real Redis share.

// tooLong is how long they wait for what must happen: far longer than the rules promise,
// and shorter than the default ttl, which would mend what is broken. Where the promise
// itself is tested, the time is measured.
const tooLong = 20 * time.Second

// patient is a StoreTimeout that no test outlives, so that a busy machine is no outage:
// attempts are repeated only when their connection breaks.
var patient = guard.StoreTimeout(time.Minute)

// site is a Redis of a test's own, which knows the scripts by name, so that a proxy
// finds them in the requests, and the book of who was in.
type site struct {
	*testing.T
	server *redistest.Server
	admin  *redis.Client
	sha    map[string]string // of the scripts, by name
	book   *book
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, server: redistest.Start(t), sha: make(map[string]string), book: newBook(t)}
	s.admin = s.server.Client(t)
	s.loadScripts()
	return s
}

func (s *site) loadScripts() {
	s.Helper()
	for name, source := range guard.Scripts() {
		sha, err := s.admin.ScriptLoad(s.Context(), source).Result()
		require.NoError(s, err)
		s.sha[name] = sha
	}
}

// proxy gives a proxy in front of the Redis, and a client that goes through it.
func (s *site) proxy() (*redistest.Proxy, *redis.Client) {
	s.Helper()
	p := redistest.NewProxy(s, s.server.Addr())
	return p, p.Client(s)
}

// runs matches the requests that run a script, beginning with the n-th.
func (s *site) runs(script string, n int) func(req []byte) bool {
	match := redistest.Contains(s.sha[script])
	return func(req []byte) bool {
		if match(req) {
			n--
			return n < 1
		}
		return false
	}
}

// guard makes a Guard with a client of its own. Unless told otherwise it is patient.
func (s *site) guard(opts ...guard.Option) *guard.Guard {
	s.Helper()
	return s.guardOn(s.server.Client(s), opts...)
}

func (s *site) guardOn(client *redis.Client, opts ...guard.Option) *guard.Guard {
	s.Helper()
	g, err := guard.New(client, append([]guard.Option{patient}, opts...)...)
	require.NoError(s, err)
	s.Cleanup(func() { assert.NoError(s, g.Close()) })
	return g
}

func (s *site) acquire(g *guard.Guard, key string, opts ...guard.LockOption) *guard.Lease {
	s.Helper()
	l, err := g.Acquire(s.Context(), guard.Key(key), opts...)
	require.NoError(s, err)
	return l
}

func (s *site) release(l *guard.Lease) {
	s.Helper()
	require.NoError(s, l.Release(s.Context()))
}

// visit takes key and gives it back: somebody came and went.
func (s *site) visit(g *guard.Guard, key string) {
	s.Helper()
	s.release(s.acquire(g, key))
}

// queue gives the owners that wait for key, in order.
func (s *site) queue(key string) []string {
	s.Helper()
	owners, err := s.admin.ZRangeArgs(s.Context(), redis.ZRangeArgs{
		Key: "guard:{" + key + "}:queue", ByScore: true, Start: "(0", Stop: "+inf",
	}).Result()
	require.NoError(s, err)
	return owners
}

func (s *site) awaitQueue(key string, n int) []string {
	s.Helper()
	var owners []string
	s.eventually(func() bool {
		owners = s.queue(key)
		return len(owners) == n
	}, "a queue of %d", n)
	return owners
}

// awaitRemembered waits until a Guard knows of n keys and waiting claims.
func (s *site) awaitRemembered(g *guard.Guard, n int) {
	s.Helper()
	s.eventually(func() bool { return guard.Remembered(g) == n }, "%d keys and claims in a Guard", n)
}

// awaitInLine waits until n callers stand in line in a Guard.
func (s *site) awaitInLine(g *guard.Guard, n int) {
	s.Helper()
	s.eventually(func() bool { return guard.InLine(g) == n }, "%d callers in line", n)
}

// instanceOf gives the instance of an owner.
func instanceOf(owner string) string {
	id, _, _ := strings.Cut(owner, "-")
	return id
}

// awaitSubscribers waits until the instance of an owner listens on n connections, as far
// as Redis knows.
func (s *site) awaitSubscribers(owner string, n int64) {
	s.Helper()
	channel := "guard:grant:" + instanceOf(owner)
	s.eventually(func() bool {
		subscribers, err := s.admin.PubSubNumSub(s.Context(), channel).Result()
		require.NoError(s, err)
		return subscribers[channel] == n
	}, "%d subscriptions", n)
}

// holders gives the fields of key's hash that are owners, with their counters.
func (s *site) holders(key string) map[string]string {
	s.Helper()
	fields, err := s.admin.HGetAll(s.Context(), "guard:{"+key+"}").Result()
	require.NoError(s, err)
	delete(fields, "@fence")
	delete(fields, "@meta")
	return fields
}

// buried counts the owners of key that are over.
func (s *site) buried(key string) int64 {
	s.Helper()
	n, err := s.admin.ZCount(s.Context(), "guard:{"+key+"}:queue", "-inf", "(0").Result()
	require.NoError(s, err)
	return n
}

// free says that nobody holds key and nobody is in its queue.
func (s *site) free(key string) bool {
	s.Helper()
	return len(s.holders(key)) == 0 && len(s.queue(key)) == 0
}

func (s *site) awaitFree(key string) {
	s.Helper()
	s.eventually(func() bool { return s.free(key) }, "a free key with nobody in its queue")
}

func (s *site) eventually(cond func() bool, msg string, args ...any) {
	s.Helper()
	for end := time.Now().Add(tooLong); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not in time: "+msg, args...)
		}
	}
}

// stays checks that a condition holds, and goes on holding for a while.
func (s *site) stays(cond func() bool, what string) {
	s.Helper()
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		require.True(s, cond(), what)
	}
}

func (s *site) await(c <-chan struct{}, what string) {
	s.Helper()
	select {
	case <-c:
	case <-time.After(tooLong):
		s.Fatalf("not in time: %s", what)
	}
}
