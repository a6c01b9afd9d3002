package redisstore_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The Redis keys of the lock k.
const (
	lockKey    = "redlatch:{k}"
	queueKey   = lockKey + ":queue"
	endedKey   = lockKey + ":ended"
	seenKey    = lockKey + ":seen"
	holdersKey = lockKey + ":holders"
)

var (
	allKeys   = []string{lockKey, queueKey, endedKey, seenKey, holdersKey}
	renewKeys = []string{lockKey, holdersKey}
)

// rig runs scripts on one lock, as they are, and looks at what they leave. Owners are named for
// their instance: "a-0.1" is a reader of instance a, "b-3.1" one with Limit(3), "x-1" exclusive.
type rig struct {
	*testing.T
	*redis.Client
}

// newRig starts a server for a parallel test.
func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	return &rig{t, redistest.Start(t).Client(t)}
}

// steppedServer is an embedded Redis whose clock, and whose keys' age, are the test's.
type steppedServer struct {
	*miniredis.Miniredis
	client *redis.Client
	clock  time.Time
	top    time.Time     // what it would show if it had not been set back
	passed time.Duration // since the beginning
	behind time.Duration // the most that the clock was
}

func newSteppedServer(t *testing.T) *steppedServer {
	t.Helper()
	m := miniredis.RunT(t)
	s := &steppedServer{Miniredis: m, client: redis.NewClient(&redis.Options{Addr: m.Addr()})}
	t.Cleanup(func() { assert.NoError(t, s.client.Close()) })
	s.clock = time.Date(2026, 1, 1, 0, 0, 0, 6000, time.UTC)
	s.step(0)
	return s
}

// step sets the clock forward or back.
func (s *steppedServer) step(by time.Duration) {
	s.clock = s.clock.Add(by)
	if s.clock.After(s.top) {
		s.top = s.clock
	}
	s.behind = max(s.behind, s.top.Sub(s.clock))
	s.SetTime(s.clock)
}

// pass lets time go by.
func (s *steppedServer) pass(d time.Duration) {
	s.FastForward(d)
	s.top, s.passed = s.top.Add(d), s.passed+d
	s.step(d)
}

// wipe removes all data.
func (b *rig) wipe() {
	b.Helper()
	require.NoError(b, b.FlushAll(b.Context()).Err())
}

// try runs a script for one command, and returns its reply.
func (b *rig) try(name string, keys []string, args ...any) (any, error) {
	b.Helper()
	reply, err := b.Eval(b.Context(), testenv.ScriptSource(name), keys, args...).Result()
	if list, is := reply.([]any); is {
		require.Len(b, list, 1)
		reply = list[0]
	}
	if refusal, refused := reply.(error); refused {
		return nil, refusal
	}
	return reply, err
}

// run is try for a script that succeeds. It returns the words of the reply.
func (b *rig) run(name string, keys []string, args ...any) []string {
	b.Helper()
	reply, err := b.try(name, keys, args...)
	require.NoError(b, err)
	return strings.Split(reply.(string), " ")
}

// acquireArgs and releaseArgs are arguments in the order of the scripts. place is empty for an owner that does not wait.
func acquireArgs(owner, channels, place, meta, above string) []any {
	wants := cmp.Or(place, "-")
	if len(wants) > 1 || above != "0" || strings.Contains(owner, ".") {
		wants += " " + above
	}
	return []any{channels, owner, 60000, meta, wants}
}

func releaseArgs(owner, channels string, tombstone, minHold int) []any {
	how := ""
	if tombstone > 0 || minHold > 0 || strings.Contains(owner, ".") {
		how = fmt.Sprint("0 ", minHold, " ", [...]string{"-", "t"}[tombstone])
	}
	return []any{channels, owner, how}
}

// acquire wants the lock for a minute.
func (b *rig) acquire(owner, place string) []string {
	b.Helper()
	return b.run("acquire", allKeys, acquireArgs(owner, "1c:", place, "of "+owner, "0")...)
}

// holds has an owner take the lock, and gives its fence.
func (b *rig) holds(owner string) string {
	b.Helper()
	reply := b.acquire(owner, "")
	require.Equal(b, "held", reply[0], "%s: %v", owner, reply)
	return reply[1]
}

// busy has an owner find the lock taken, and waits in the queue unless place is empty.
func (b *rig) busy(owner, place string) {
	b.Helper()
	reply := b.acquire(owner, place)
	require.Equal(b, "busy", reply[0], "%s: %v", owner, reply)
}

// release gives what the script says.
func (b *rig) release(owner string, tombstone int) string {
	b.Helper()
	return b.run("release", allKeys, releaseArgs(owner, "1c:", tombstone, 0)...)[0]
}

func (b *rig) renew(owner, fence string, ttl, depth int) string {
	b.Helper()
	keys := renewKeys
	if !strings.Contains(owner, ".") {
		keys = keys[:1]
	}
	return b.run("renew", keys, owner, fence, ttl, depth, "")[0]
}

// line is what the lock has of an owner: depth, fence, lease, flags, metadata.
func (b *rig) line(owner string) []string {
	b.Helper()
	words := strings.SplitN(b.HGet(b.Context(), lockKey, owner).Val(), " ", 5)
	require.Len(b, words, 5, owner)
	return words
}

// inside says whether the lock has an owner.
func (b *rig) inside(owner string) bool { return b.HExists(b.Context(), lockKey, owner).Val() }

// listen subscribes instances to their messages.
func (b *rig) listen(instances ...string) {
	b.Helper()
	for _, instance := range instances {
		listener := b.Subscribe(b.Context(), "c:"+instance)
		b.Cleanup(func() { _ = listener.Close() })
		_, err := listener.Receive(b.Context())
		require.NoError(b, err)
	}
}

func (b *rig) lives(key string) time.Duration { return b.PTTL(b.Context(), key).Val() }

func (b *rig) gone(keys ...string) bool { return b.Exists(b.Context(), keys...).Val() == 0 }

// queued counts the owners that wait.
func (b *rig) queued() int64 { return b.ZCard(b.Context(), queueKey).Val() }

func (b *rig) memory(most string) {
	b.Helper()
	require.NoError(b, b.ConfigSet(b.Context(), "maxmemory", most).Err())
}

// asked sets back when a waiting owner asked last.
func (b *rig) asked(owner string, ago time.Duration) {
	b.Helper()
	now, err := b.Time(b.Context()).Result()
	require.NoError(b, err)
	require.NoError(b, b.HSet(b.Context(), seenKey, owner, now.Add(-ago).UnixMicro()).Err())
}

// as runs scripts as a user that may do everything but some commands. It is nil where the server
// does not know such rules.
func (b *rig) as(rules ...any) *rig {
	b.Helper()
	acl := append([]any{"acl", "setuser", "weak", "reset", "on", ">weak", "~*", "&*", "+@all"}, rules...)
	if err := b.Do(b.Context(), acl...).Err(); err != nil {
		return nil // rules of Redis 7, on an older one
	}
	o := *b.Options()
	o.Username, o.Password = "weak", "weak"
	client := redis.NewClient(&o)
	b.Cleanup(func() { _ = client.Close() })
	return &rig{b.T, client}
}

// calls counts the commands that scripts run meanwhile, by name.
func (b *rig) calls(run func()) map[string]int {
	b.Helper()
	require.NoError(b, b.ConfigResetStat(b.Context()).Err())
	run()
	info, err := b.Info(b.Context(), "commandstats").Result()
	require.NoError(b, err)
	calls := map[string]int{}
	for _, m := range testenv.CommandStat.FindAllStringSubmatch(info, -1) {
		if name := m[1]; !slices.Contains([]string{"eval", "info", "config|resetstat"}, name) {
			calls[name], err = strconv.Atoi(m[2])
			require.NoError(b, err)
		}
	}
	require.NotEmpty(b, calls)
	return calls
}
