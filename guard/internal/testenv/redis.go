package testenv

import (
	"context"
	"fmt"
	"regexp"
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
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Patient is a StoreTimeout that no test outlives, so that a busy machine is no outage:
// attempts are repeated only when their connection breaks.
var Patient = guard.StoreTimeout(time.Minute)

// Redis is a Redis of a test's own, which knows the scripts by name, so that a proxy
// finds them in the requests, and the book of holders.
type Redis struct {
	*testing.T
	Server *redistest.Server
	Admin  *redis.Client
	Sha    map[string]string // of the scripts, by name
	Book   *Book
}

// NewRedis starts a Redis and loads the scripts.
func NewRedis(t *testing.T) *Redis {
	t.Helper()
	s := &Redis{T: t, Server: redistest.Start(t), Sha: make(map[string]string)}
	s.Book = &Book{Tb: t, Inside: make(map[string]string), Fences: make(map[string]uint64)}
	s.Admin = s.Server.Client(t)
	for name, source := range redisstore.Scripts() {
		sha, err := s.Admin.ScriptLoad(s.Context(), source).Result()
		require.NoError(s, err)
		s.Sha[name] = sha
	}
	return s
}

// Proxy returns a proxy in front of the Redis, and a client that goes through it.
func (s *Redis) Proxy() (*redistest.Proxy, *redis.Client) {
	s.Helper()
	p := redistest.NewProxy(s, s.Server.Addr())
	return p, p.Client(s)
}

// Runs matches the requests that run a script, beginning with the n-th.
func (s *Redis) Runs(script string, n int) func(req []byte) bool {
	match := redistest.Contains(s.Sha[script])
	return func(req []byte) bool {
		if match(req) {
			n--
			return n < 1
		}
		return false
	}
}

// Guard makes a Guard with a client of its own. By default it is patient.
func (s *Redis) Guard(opts ...guard.Option) *guard.Guard {
	s.Helper()
	return s.GuardOn(s.Server.Client(s), opts...)
}

// GuardOn makes a Guard on a client, with a StoreTimeout that no test outlives.
func (s *Redis) GuardOn(client *redis.Client, opts ...guard.Option) *guard.Guard {
	s.Helper()
	return GuardOn(s.T, client, append([]guard.Option{Patient}, opts...)...)
}

// Acquire takes a key, or ends the test.
func (s *Redis) Acquire(g *guard.Guard, key string, opts ...guard.LockOption) *guard.Lease {
	s.Helper()
	l, err := g.Acquire(s.Context(), guard.Key(key), opts...)
	require.NoError(s, err)
	return l
}

// Release releases a lease, or ends the test.
func (s *Redis) Release(l *guard.Lease) {
	s.Helper()
	require.NoError(s, l.Release(s.Context()))
}

// Visit takes key and releases it.
func (s *Redis) Visit(g *guard.Guard, key string) {
	s.Helper()
	s.Release(s.Acquire(g, key))
}

// Queue returns the owners that wait for key, in order.
func (s *Redis) Queue(key string) []string {
	s.Helper()
	owners, err := s.Admin.ZRange(s.Context(), LockOf(key)+":queue", 0, -1).Result()
	require.NoError(s, err)
	return owners
}

// AwaitQueue waits until n claims are in the queue of key, and gives their owners in order.
func (s *Redis) AwaitQueue(key string, n int) []string {
	s.Helper()
	var owners []string
	s.Eventually(func() bool {
		owners = s.Queue(key)
		return len(owners) == n
	}, "a queue of %d", n)
	return owners
}

// AwaitRemembered waits until a Guard knows of n keys and waiting claims.
func (s *Redis) AwaitRemembered(g *guard.Guard, n int) {
	s.Helper()
	s.Eventually(func() bool { return Remembered(g) == n }, "%d keys and claims in a Guard", n)
}

// AwaitQueued waits until n callers stand in the queues of a Guard.
func (s *Redis) AwaitQueued(g *guard.Guard, n int) {
	s.Helper()
	s.Eventually(func() bool { return Queued(g) == n }, "%d callers in the queue", n)
}

// Owner returns the token of a lease: the field of the lock's hash in Redis.
func Owner(l *guard.Lease) string { return guardhook.Owner(l) }

// InstanceOf returns the instance of an owner.
func InstanceOf(owner string) string {
	id, _, _ := strings.Cut(owner, "-")
	return id
}

// AwaitSubscribers waits until the instance of an owner listens on n connections, as far
// as Redis knows.
func (s *Redis) AwaitSubscribers(owner string, n int64) {
	s.Helper()
	channel := "redlatch:grant:" + InstanceOf(owner)
	s.Eventually(func() bool {
		subscribers, err := s.Admin.PubSubNumSub(s.Context(), channel).Result()
		require.NoError(s, err)
		return subscribers[channel] == n
	}, "%d subscriptions", n)
}

// Holders returns the fields of key's hash that are owners, with their counters.
func (s *Redis) Holders(key string) map[string]string {
	s.Helper()
	fields, err := s.Admin.HGetAll(s.Context(), LockOf(key)).Result()
	require.NoError(s, err)
	delete(fields, "@fence")
	for owner, value := range fields {
		fields[owner], _, _ = strings.Cut(value, " ")
	}
	return fields
}

// Tombstones counts the owners of key that have ended.
func (s *Redis) Tombstones(key string) int64 {
	s.Helper()
	n, err := s.Admin.ZCard(s.Context(), LockOf(key)+":ended").Result()
	require.NoError(s, err)
	return n
}

// AwaitFree waits until key is free, and its queue is empty.
func (s *Redis) AwaitFree(key string) {
	s.Helper()
	s.Eventually(func() bool { return len(s.Holders(key)) == 0 && len(s.Queue(key)) == 0 }, "a free key with an empty queue")
}

// Eventually waits until cond is true.
func (s *Redis) Eventually(cond func() bool, msg string, args ...any) {
	s.Helper()
	Eventually(s.T, cond, fmt.Sprintf("not in time: "+msg, args...))
}

// Await waits for c.
func (s *Redis) Await(c <-chan struct{}, what string) {
	s.Helper()
	select {
	case <-c:
	case <-time.After(Patience):
		s.Fatalf("not in time: %s", what)
	}
}

// Lands lets a request that was held back go on, and returns when Redis has executed it.
func (s *Redis) Lands(release func()) {
	s.Helper()
	before := s.Scripts()
	release()
	s.Eventually(func() bool { return s.Scripts() > before }, "the late request")
}

// CommandStat matches a line of INFO commandstats.
var CommandStat = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`)

// Commands counts what the server executed since ResetCommands, by name, what scripts
// called included.
func (s *Redis) Commands() map[string]int {
	s.Helper()
	return commands(s, s.Admin)
}

func commands(tb testing.TB, client redis.UniversalClient) map[string]int {
	tb.Helper()
	info, err := client.Info(tb.Context(), "commandstats").Result()
	require.NoError(tb, err)
	calls := make(map[string]int)
	for _, m := range CommandStat.FindAllStringSubmatch(info, -1) {
		calls[m[1]], err = strconv.Atoi(m[2])
		require.NoError(tb, err)
	}
	return calls
}

// ResetCommands has Redis count its commands from zero.
func (s *Redis) ResetCommands() {
	s.Helper()
	require.NoError(s, s.Admin.ConfigResetStat(s.Context()).Err())
}

// Scripts counts the scripts that were run since ResetCommands.
func (s *Redis) Scripts() int {
	s.Helper()
	c := s.Commands()
	return c["evalsha"] + c["eval"]
}

// CalledByScripts counts the commands that scripts ran.
func (s *Redis) CalledByScripts() int {
	s.Helper()
	n := 0
	for name, calls := range s.Commands() {
		switch name {
		case "evalsha", "eval", "info", "config|resetstat", "hello", "client|setinfo", "client|maint_notifications", "ping":
		default:
			n += calls
		}
	}
	return n
}

// Caller is a WithLock in the background.
type Caller struct {
	S     *Redis
	Name  string
	In    chan struct{} // closed when its work begins
	Leave chan struct{} // closed to let its work end
	Done  chan error

	Fence uint64    // read after in
	At    time.Time // likewise
}

// Caller begins to lock key, and notes in the book when it comes and goes.
func (s *Redis) Caller(ctx context.Context, name string, g *guard.Guard, key string, opts ...guard.LockOption) *Caller {
	v := &Caller{
		S: s, Name: name,
		In: make(chan struct{}), Leave: make(chan struct{}), Done: make(chan error, 1),
	}
	go func() {
		v.Done <- g.WithLock(ctx, guard.Key(key), func(ctx context.Context) error {
			defer s.Book.Enter(ctx, key, name)()
			v.Fence, _ = guard.Fence(ctx)
			v.At = time.Now()
			close(v.In)
			select {
			case <-v.Leave:
			case <-ctx.Done():
			}
			return nil
		}, opts...)
	}()
	return v
}

// AwaitIn waits until the caller is in.
func (v *Caller) AwaitIn() {
	v.S.Helper()
	v.S.Await(v.In, v.Name+" gets in")
}

// Pass lets a caller that is or will be in leave, and checks that it held the lock
// throughout.
func (v *Caller) Pass() {
	v.S.Helper()
	v.AwaitIn()
	close(v.Leave)
	require.NoError(v.S, v.Out(), v.Name)
}

// Out waits for the end of the call.
func (v *Caller) Out() error {
	v.S.Helper()
	select {
	case err := <-v.Done:
		return err
	case <-time.After(Patience):
		v.S.Fatalf("not in time: the end of %s", v.Name)
		return nil
	}
}

// Book notes the holders: one at a time under each key, with fences that grow.
type Book struct {
	Tb     testing.TB
	Mu     sync.Mutex
	Inside map[string]string
	Fences map[string]uint64
	Order  []string
}

// Enter notes a holder, and returns what notes that it left.
func (b *Book) Enter(ctx context.Context, key, who string) (leave func()) {
	fence, _ := guard.Fence(ctx)
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if other, taken := b.Inside[key]; taken {
		b.Tb.Errorf("%s is in under %s while %s is", who, key, other)
	}
	if fence <= b.Fences[key] {
		b.Tb.Errorf("%s is in under %s with fence %d after %d", who, key, fence, b.Fences[key])
	}
	b.Inside[key], b.Fences[key] = who, fence
	b.Order = append(b.Order, who)
	return func() {
		b.Mu.Lock()
		defer b.Mu.Unlock()
		delete(b.Inside, key)
	}
}

// Entered returns the holders, in order.
func (b *Book) Entered() []string {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	return append([]string(nil), b.Order...)
}

// LeftNothing checks that k0, k1 and so on are free, with empty queues, and that no Guard
// remembers them.
func (s *Redis) LeftNothing(guards []*guard.Guard, keys int) {
	s.Helper()
	for i, g := range guards {
		s.Eventually(func() bool { return Remembered(g) == 0 }, "Guard %d forgets its keys and claims", i)
	}
	for k := range keys {
		key := fmt.Sprint("k", k)
		s.AwaitFree(key)
		assert.Zero(s, s.Admin.HLen(s.Context(), LockOf(key)+":seen").Val(), "seen in the queue of %s", key)
	}
}

// AwaitAll waits for callers whose contexts ended. They get out one by one, however slow the
// machine is: one was forgotten when what moves counts does not change any more.
func (s *Redis) AwaitAll(callers *sync.WaitGroup, moves func() int) {
	s.Helper()
	done := make(chan struct{})
	go func() {
		callers.Wait()
		close(done)
	}()
	for before := -1; ; {
		now := moves()
		require.NotEqual(s, before, now, "nothing has moved for %v: a caller was forgotten", Patience)
		before = now
		select {
		case <-done:
			return
		case <-time.After(Patience):
		}
	}
}
