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

// bench runs scripts on one lock, as they are, and looks at what they leave. Owners are named for
// their instance: "a-0.1" is a reader of instance a, "b-3.1" one with Limit(3), "x-1" exclusive.
type bench struct {
	*testing.T
	*redis.Client
	listeners map[string]*redis.PubSub // by instance
}

// newBench starts a server for a parallel test.
func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return &bench{t, redistest.Start(t).Client(t), map[string]*redis.PubSub{}}
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

// newSteppedBench is a bench in a parallel test on a server whose clock stands still.
func newSteppedBench(t *testing.T) (*bench, *steppedServer) {
	t.Helper()
	t.Parallel()
	s := newSteppedServer(t)
	return &bench{t, s.client, map[string]*redis.PubSub{}}, s
}

// wipe removes all data.
func (b *bench) wipe() {
	b.Helper()
	require.NoError(b, b.FlushAll(b.Context()).Err())
}

func (b *bench) try(name string, keys []string, args ...any) (any, error) {
	b.Helper()
	reply, err := b.Eval(b.Context(), testenv.ScriptSource(name), keys, args...).Result()
	if list, is := reply.([]any); is && len(list) == 1 {
		if refusal, refused := list[0].(error); refused {
			return nil, refusal
		}
	}
	return reply, err
}

func (b *bench) run(name string, keys []string, args ...any) []any {
	b.Helper()
	reply, err := b.try(name, keys, args...)
	require.NoError(b, err)
	list, ok := reply.([]any)
	if !ok {
		list = []any{reply}
	}
	return list
}

// acquireArgs and releaseArgs are arguments in the order of the scripts. place is empty for an owner that does not wait.
func acquireArgs(owner, channels string, ttl int, place, meta, above string) []any {
	wants := cmp.Or(place, "-")
	if len(wants) > 1 || above != "0" || strings.Contains(owner, ".") {
		wants += " " + above
	}
	return []any{channels, owner, ttl, meta, wants}
}

func releaseArgs(owner, channels, fence string, tombstone, minHold int) []any {
	how := ""
	if fence != "0" || tombstone > 0 || minHold > 0 || strings.Contains(owner, ".") {
		how = fmt.Sprint(fence, " ", minHold, " ", [...]string{"-", "t"}[tombstone])
	}
	return []any{channels, owner, how}
}

// said is what acquire replied: 1, the fence, and 1 if that is ahead of the clock; 0 and how the lock
// stands; or -1.
func said(replies ...any) []any {
	number := func(word string) int64 { n, _ := strconv.ParseInt(word, 10, 64); return n }
	switch words := strings.SplitN(replies[0].(string), " ", 7); words[0] {
	case "held":
		if len(words) > 2 && words[1] > words[2] {
			return []any{int64(1), words[1], int64(1)}
		}
		return []any{int64(1), words[1]}
	case "busy":
		return []any{int64(0), number(words[1]), words[6], words[2], number(words[3]), number(words[4]), number(words[5])}
	default:
		return []any{int64(-1)}
	}
}

// take runs acquire.
func (b *bench) take(owner string, ttl int, place, meta, above string) []any {
	b.Helper()
	return said(b.run("acquire", allKeys, acquireArgs(owner, "1c:", ttl, place, meta, above)...)...)
}

// acquire wants the lock for a minute. place is empty for an owner that does not wait.
func (b *bench) acquire(owner, place string) []any {
	b.Helper()
	return b.take(owner, 60000, place, "", "0")
}

func (b *bench) acquireAbove(owner, above string) []any {
	b.Helper()
	return b.take(owner, 60000, "", "", above)
}

// holds has an owner take the lock, and gives its fence.
func (b *bench) holds(owner string) string {
	b.Helper()
	reply := b.acquire(owner, "")
	require.EqualValues(b, 1, reply[0], "%s: %v", owner, reply)
	return reply[1].(string)
}

// busy has an owner find the lock taken, and waits in the queue unless place is empty.
func (b *bench) busy(owner, place string) []any {
	b.Helper()
	reply := b.acquire(owner, place)
	require.Len(b, reply, 7, "%s: %v", owner, reply)
	require.EqualValues(b, 0, reply[0])
	return reply
}

// waits has an owner enter the queue, and gives its place.
func (b *bench) waits(owner, place string, inFront int64) string {
	b.Helper()
	reply := b.busy(owner, place)
	require.Equal(b, inFront, reply[4], owner)
	return reply[3].(string)
}

func (b *bench) finished(owner string) {
	b.Helper()
	require.Equal(b, []any{int64(-1)}, b.acquire(owner, "0"), owner)
}

// release gives what the script says.
func (b *bench) release(owner, fence string, tombstone int) int64 {
	b.Helper()
	return released(b.run("release", allKeys, releaseArgs(owner, "1c:", fence, tombstone, 0)...))
}

func (b *bench) releaseHeldOver(owner string, minHold int) int64 {
	b.Helper()
	return released(b.run("release", allKeys, releaseArgs(owner, "1c:", "0", 0, minHold)...))
}

// released and renewed are replies as numbers.
func released(replies []any) int64 {
	return map[any]int64{"lost": 0, "released": 1, "revoked": 3, "kept": 4}[replies[0]]
}

func (b *bench) renew(owner, fence string, ttl, depth int) int64 {
	b.Helper()
	keys := renewKeys
	if !strings.Contains(owner, ".") {
		keys = keys[:1]
	}
	word, _, _ := strings.Cut(b.run("renew", keys, owner, fence, ttl, depth, "")[0].(string), " ")
	return map[string]int64{"lost": 0, "held": 1, "revoked": 2}[word]
}

// line is what the lock has of an owner: depth, fence, lease, flags, metadata.
func (b *bench) line(owner string) []string {
	b.Helper()
	words := strings.SplitN(b.HGet(b.Context(), lockKey, owner).Val(), " ", 5)
	require.Len(b, words, 5, owner)
	return words
}

// change changes a word of that.
func (b *bench) change(owner string, word int, to any) {
	b.Helper()
	words := b.line(owner)
	words[word] = fmt.Sprint(to)
	require.NoError(b, b.HSet(b.Context(), lockKey, owner, strings.Join(words, " ")).Err())
}

// ends sets when the time of an owner beside others has ended.
func (b *bench) ends(owner string, in time.Duration) {
	b.Helper()
	at := b.micros() + in.Microseconds()
	since, err := strconv.ParseInt(b.line(owner)[1], 10, 64)
	require.NoError(b, err)
	if since > at {
		b.change(owner, 3, "a"+strconv.FormatInt(at-1_000_000, 10))
		since = at - 1_000_000
	}
	b.change(owner, 2, max(at-since, 0)/1000)
	require.NoError(b, b.ZAdd(b.Context(), holdersKey, redis.Z{Score: float64(at), Member: owner}).Err())
}

// inside says whether the lock has an owner.
func (b *bench) inside(owner string) bool { return b.HExists(b.Context(), lockKey, owner).Val() }

// listen subscribes instances to their messages.
func (b *bench) listen(instances ...string) {
	b.Helper()
	for _, instance := range instances {
		listener := b.Subscribe(b.Context(), "c:"+instance)
		b.Cleanup(func() { _ = listener.Close() })
		_, err := listener.Receive(b.Context())
		require.NoError(b, err)
		b.listeners[instance] = listener
	}
}

// messages are those to an instance since it was asked last.
func (b *bench) messages(instance string) (payloads []string) {
	b.Helper()
	mark := "end " + strconv.FormatInt(time.Now().UnixNano(), 10)
	require.NoError(b, b.Publish(b.Context(), "c:"+instance, mark).Err())
	for {
		m, err := b.listeners[instance].ReceiveMessage(b.Context())
		require.NoError(b, err)
		if m.Payload == mark {
			return payloads
		}
		payloads = append(payloads, m.Payload)
	}
}

// ahead is the fence ahead of the clock that is remembered; empty if there is none.
func (b *bench) ahead() string {
	high, err := b.ZScore(b.Context(), endedKey, "@fence").Result()
	if err != nil {
		return ""
	}
	return strconv.FormatFloat(high, 'f', 0, 64)
}

// remembers makes a fence known that is ahead of the clock.
func (b *bench) remembers(fence string) {
	b.Helper()
	require.NoError(b, b.Do(b.Context(), "zadd", endedKey, fence, "@fence").Err())
}

func (b *bench) lives(key string) time.Duration { return b.PTTL(b.Context(), key).Val() }

func (b *bench) gone(keys ...string) bool { return b.Exists(b.Context(), keys...).Val() == 0 }

// queued counts the owners that wait.
func (b *bench) queued() int64 { return b.ZCard(b.Context(), queueKey).Val() }

// micros is the server's clock.
func (b *bench) micros() int64 {
	b.Helper()
	now, err := b.Time(b.Context()).Result()
	require.NoError(b, err)
	return now.UnixMicro()
}

// in is a time of the server's clock, as text.
func (b *bench) in(d time.Duration) string { return strconv.FormatInt(b.micros()+d.Microseconds(), 10) }

func (b *bench) memory(most string) {
	b.Helper()
	require.NoError(b, b.ConfigSet(b.Context(), "maxmemory", most).Err())
}

// asked sets back when a waiting owner asked last.
func (b *bench) asked(owner string, ago time.Duration) {
	b.Helper()
	require.NoError(b, b.HSet(b.Context(), seenKey, owner, b.in(-ago)).Err())
}

// as runs scripts as a user that may do everything but some commands. It is nil where the server
// does not know such rules.
func (b *bench) as(rules ...any) *bench {
	b.Helper()
	acl := append([]any{"acl", "setuser", "weak", "reset", "on", ">weak", "~*", "&*", "+@all"}, rules...)
	if err := b.Do(b.Context(), acl...).Err(); err != nil {
		return nil // rules of Redis 7, on an older one
	}
	o := *b.Options()
	o.Username, o.Password = "weak", "weak"
	client := redis.NewClient(&o)
	b.Cleanup(func() { _ = client.Close() })
	return &bench{b.T, client, b.listeners}
}

// calls counts the commands that scripts run meanwhile, by name.
func (b *bench) calls(run func()) map[string]int {
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
