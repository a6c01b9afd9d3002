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
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Patient is a StoreTimeout that no test outlives, so that a busy machine is no outage:
// attempts are repeated only when their connection breaks.
var Patient = guard.StoreTimeout(time.Minute)

// Redis is a Redis of a test's own, which has the scripts, and the book of holders.
type Redis struct {
	*testing.T
	Server *redistest.Server
	Admin  *redis.Client
	Book   *Book
}

// NewRedis starts a Redis and loads the scripts.
func NewRedis(t *testing.T) *Redis {
	t.Helper()
	s := &Redis{T: t, Server: redistest.Start(t)}
	s.Book = &Book{Tb: t, Inside: make(map[string]string), Fences: make(map[string]uint64)}
	s.Admin = s.Server.Client(t)
	for _, name := range []string{"acquire", "release", "renew", "forget"} {
		require.NoError(s, s.Admin.ScriptLoad(s.Context(), ScriptSource(name)).Err())
	}
	return s
}

// Proxy returns a proxy in front of the Redis, and a client that goes through it.
func (s *Redis) Proxy() (*redistest.Proxy, *redis.Client) {
	s.Helper()
	p := redistest.NewProxy(s, s.Server.Addr())
	return p, p.Client(s)
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

// Owner returns the token of a lease: the field of the lock's hash in Redis.
func Owner(l *guard.Lease) string { return guardhook.Owner(l) }

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

// CommandStat matches a line of INFO commandstats.
var CommandStat = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`)

// Commands counts what the server executed since ResetCommands, by name, what scripts
// called included.
func (s *Redis) Commands() map[string]int {
	s.Helper()
	info, err := s.Admin.Info(s.Context(), "commandstats").Result()
	require.NoError(s, err)
	calls := make(map[string]int)
	for _, m := range CommandStat.FindAllStringSubmatch(info, -1) {
		calls[m[1]], err = strconv.Atoi(m[2])
		require.NoError(s, err)
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
	Await(v.S.T, v.In)
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
