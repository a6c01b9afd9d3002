package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The Redis keys of the lock k.
const (
	lockKey  = "guard:{k}"
	queueKey = lockKey + ":queue"
	lastKey  = lockKey + ":last"
	seenKey  = lockKey + ":seen"
)

// bench runs scripts on one lock, as they are, and looks at what they leave.
type bench struct {
	*testing.T
	*redis.Client
	ears map[string]*redis.PubSub // by instance
}

func newBench(t *testing.T, args ...string) *bench {
	t.Helper()
	return &bench{t, redistest.Start(t, args...).Client(t), map[string]*redis.PubSub{}}
}

func (b *bench) try(name string, keys []string, args ...any) (any, error) {
	b.Helper()
	source, known := redisstore.Scripts()[name]
	require.True(b, known, name)
	return b.Eval(b.Context(), source, keys, args...).Result()
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

// acquireArgs and releaseArgs are arguments in the order of the scripts.
func acquireArgs(owner, channels string, ttl, place, meta, above any) []any {
	return []any{owner, ttl, meta, above, place, channels, ""}
}

func releaseArgs(owner, channels string, ttl, fence, tombstone, minHold any) []any {
	return []any{owner, ttl, fence, tombstone, minHold, channels}
}

// said is what acquire replied: 1, the fence, and 1 if that is ahead of the clock; 0 and how the lock
// stands; or -1.
func said(reply ...any) []any {
	if len(reply) == 1 {
		switch r := reply[0].(type) {
		case []any:
			reply = r
		case string:
			if fence, ahead := strings.CutPrefix(r, "-"); ahead {
				return []any{int64(1), fence, int64(1)}
			}
			return []any{int64(1), r}
		default:
			return []any{int64(-1)}
		}
	}
	return append([]any{int64(0)}, reply...)
}

// line is what the lock has of an owner: depth, fence, end, flags, metadata.
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

// acquire wants the lock for a minute. place is empty for an owner that does not wait.
func (b *bench) acquire(owner, place string) []any {
	b.Helper()
	return b.acquireAbove(owner, place, "0")
}

func (b *bench) acquireAbove(owner, place, above string) []any {
	b.Helper()
	return said(b.run("acquire", allKeys, acquireArgs(owner, "1c:", 60000, place, "", above)...)...)
}

// holds has an owner take the lock, and gives its fence.
func (b *bench) holds(owner string) string {
	b.Helper()
	reply := b.acquire(owner, "")
	require.EqualValues(b, 1, reply[0], "%s: %v", owner, reply)
	return reply[1].(string)
}

// waits has an owner enter the queue, and gives its place.
func (b *bench) waits(owner, place string, inFront int64) string {
	b.Helper()
	reply := b.acquire(owner, place)
	require.Len(b, reply, 7, "%s: %v", owner, reply)
	require.Equal(b, inFront, reply[4], owner)
	return reply[3].(string)
}

func (b *bench) over(owner string) {
	b.Helper()
	require.Equal(b, []any{int64(-1)}, b.acquire(owner, "0"), owner)
}

func (b *bench) release(owner, fence string, tombstone int) []any {
	b.Helper()
	return b.run("release", allKeys, releaseArgs(owner, "1c:", 60000, fence, tombstone, 0)...)
}

// listen has instances hear what they are told.
func (b *bench) listen(instances ...string) {
	b.Helper()
	for _, instance := range instances {
		ear := b.Subscribe(b.Context(), "c:"+instance)
		b.Cleanup(func() { _ = ear.Close() })
		_, err := ear.Receive(b.Context())
		require.NoError(b, err)
		b.ears[instance] = ear
	}
}

// heard are the messages to an instance since it was asked last.
func (b *bench) heard(instance string) (messages []string) {
	b.Helper()
	mark := "end " + strconv.FormatInt(time.Now().UnixNano(), 10)
	require.NoError(b, b.Publish(b.Context(), "c:"+instance, mark).Err())
	for {
		m, err := b.ears[instance].ReceiveMessage(b.Context())
		require.NoError(b, err)
		if m.Payload == mark {
			return messages
		}
		messages = append(messages, m.Payload)
	}
}

func (b *bench) last() string { return b.Get(b.Context(), lastKey).Val() }

func (b *bench) lives(key string) time.Duration { return b.PTTL(b.Context(), key).Val() }

func (b *bench) full() {
	b.Helper()
	require.NoError(b, b.ConfigSet(b.Context(), "maxmemory", "1").Err())
}

// asked sets back when a waiting owner asked last.
func (b *bench) asked(owner string, ago time.Duration) {
	b.Helper()
	now, err := b.Time(b.Context()).Result()
	require.NoError(b, err)
	require.NoError(b, b.HSet(b.Context(), seenKey, owner, now.Add(-ago).UnixMicro()).Err())
}

// A tombstone lives for a minute, and that of another owner does not end it.
func TestScripts_TombstonesLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.release("x-1", "0", 1)
	before := b.ZScore(t.Context(), queueKey, "x-1").Val()
	now, err := b.Time(t.Context()).Result()
	require.NoError(t, err)
	assert.InDelta(t, now.Add(time.Minute).UnixMicro(), -before, float64(5*time.Second/time.Microsecond))
	assert.Greater(t, b.lives(queueKey), 55*time.Second)
	for end := now.Add(200 * time.Millisecond); now.Before(end); {
		now, err = b.Time(t.Context()).Result()
		require.NoError(t, err)
	}
	b.release("y-1", "0", 1)
	b.over("x-1")
	b.over("y-1")
	assert.Zero(t, b.Exists(t.Context(), lockKey).Val())
}

// What is over for good is swept out with the next tombstone, also when memory is full.
func TestScripts_TombstonesThatAreOverAreSweptOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now, err := b.Time(t.Context()).Result()
	require.NoError(t, err)
	for i := range 20 {
		z := redis.Z{Score: -float64(now.Add(-time.Duration(i) * time.Second).UnixMicro()), Member: fmt.Sprint("old-", i)}
		require.NoError(t, b.ZAdd(t.Context(), queueKey, z).Err())
	}
	b.full()
	b.release("x-1", "0", 1)
	assert.Equal(t, []string{"x-1"}, b.ZRange(t.Context(), queueKey, 0, -1).Val())
	require.NoError(t, b.ConfigSet(t.Context(), "maxmemory", "0").Err())
	b.over("x-1")
}

// A tombstone and those who wait live equally long: one without the other would say that
// nobody asked.
func TestScripts_QueueAndSeenLiveEquallyLong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.holds("x-1")
	b.waits("y-1", "0", 0)
	for what, run := range map[string]func(){
		"a waiter": func() { b.waits("z-1", "0", 1) }, "a tombstone": func() { b.release("v-1", "0", 1) },
	} {
		require.NoError(t, b.PExpire(t.Context(), queueKey, 20*time.Second).Err())
		require.NoError(t, b.PExpire(t.Context(), seenKey, 20*time.Second).Err())
		run()
		assert.Greater(t, b.lives(queueKey), 50*time.Second, what)
		assert.Greater(t, b.lives(seenKey), 50*time.Second, what)
	}
}

// Memory that is full keeps nobody from confirming a grant or a hold.
func TestScripts_ConfirmationsWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("y")
	fence := b.holds("x-1")
	b.waits("y-1", "0", 0)
	b.release("x-1", fence, 0)
	require.Equal(t, []string{"y-1"}, b.heard("y"))
	b.full()
	reply := said(b.run("acquire", allKeys, acquireArgs("y-1", "1c:", 60000, "0", "of y", 0)...)...)
	require.EqualValues(t, 1, reply[0])
	assert.Equal(t, "of y", b.line("y-1")[4])
	assert.Greater(t, b.lives(lockKey), 50*time.Second)

	granted := b.line("y-1")[1]
	require.Equal(t, []any{int64(1)}, b.run("renew", renewKeys, "y-1", granted, 1000, 3, "of y"))
	assert.Equal(t, "3", b.line("y-1")[0])
	require.Equal(t, []any{int64(1)}, b.run("renew", renewKeys, "y-1", granted, 0, 4, "of y"))
}

// A fence is above all that there is a reason to be above.
func TestScripts_AFenceIsAbove(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := strconv.FormatInt(clock.UnixMicro(), 10)
	next := strconv.FormatInt(clock.UnixMicro()+1, 10)
	for name, c := range map[string]struct {
		last, above string
		want        string
		ahead       bool
	}{
		"the clock":                   {"", "0", at, false},
		"a last one with less digits": {"9 x-0", "0", at, false},
		"the clock in the same µs":    {at + " x-0", "0", next, true},
		"a floor of the same µs":      {"", at, next, true},
		"a floor with less digits":    {"", "99", at, false},
		"a last one ahead":            {next + " x-0", at, strconv.FormatInt(clock.UnixMicro()+2, 10), true},
		"a floor ahead":               {at + " x-0", next, strconv.FormatInt(clock.UnixMicro()+2, 10), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := miniredis.RunT(t)
			m.SetTime(clock)
			client := redis.NewClient(&redis.Options{Addr: m.Addr()})
			t.Cleanup(func() { _ = client.Close() })
			b := &bench{t, client, nil}
			if c.last != "" {
				require.NoError(t, b.Set(t.Context(), lastKey, c.last, time.Minute).Err())
			}
			want := []any{int64(1), c.want}
			if c.ahead {
				want = append(want, int64(1))
			}
			assert.Equal(t, want, b.acquireAbove("x-1", "", c.above))
			assert.True(t, strings.HasPrefix(b.last(), c.want+" "), b.last())
			assert.Equal(t, c.want, b.line("x-1")[1])
		})
	}
}

// A lock that was granted by somebody who did not know what its fence must be above is
// confirmed under one that is.
func TestScripts_AGrantBelowWhatItsClaimNeeds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fence := b.holds("x-1")
	require.Equal(t, []any{int64(1), fence}, b.acquireAbove("x-1", "", "1"))
	n, err := strconv.ParseInt(fence, 10, 64)
	require.NoError(t, err)
	far := strconv.FormatInt(n+int64(time.Hour/time.Microsecond), 10)
	above := b.acquireAbove("x-1", "", far)
	require.Equal(t, []any{int64(1), strconv.FormatInt(n+int64(time.Hour/time.Microsecond)+1, 10), int64(1)}, above)
	require.Equal(t, above, b.acquireAbove("x-1", "", far), "and under the same from then on")
	equal := b.acquireAbove("x-1", "", above[1].(string))
	require.NotEqual(t, above[1], equal[1], "equal is not above")
}

// A release remembers the highest fence, whoever knows it, and for twice the ttl.
func TestScripts_AReleaseRemembersTheHighestFence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, told := range []string{"0", "7", "99999"} {
		fence := b.holds("x-" + told)
		b.release("x-"+told, told, 0)
		assert.True(t, strings.HasPrefix(b.last(), fence+" x-"+told+" "), "told %s: %s", told, b.last())
		assert.Greater(t, b.lives(lastKey), 115*time.Second, "twice the ttl")
	}
}

// Owners that wait are granted the lock if they asked within 25 s, and passed over if not.
func TestScripts_WhoAskedLately(t *testing.T) {
	t.Parallel()
	for ago, first := range map[time.Duration]string{14 * time.Second: "y-1", 24 * time.Second: "y-1", 26 * time.Second: "z-1"} {
		t.Run(ago.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.listen("y", "z")
			fence := b.holds("x-1")
			b.waits("y-1", "0", 0)
			b.waits("z-1", "0", 1)
			b.asked("y-1", ago)
			b.release("x-1", fence, 0)
			assert.True(t, b.HExists(t.Context(), lockKey, first).Val(), b.HGetAll(t.Context(), lockKey).Val())
		})
	}
}

// A claim that a late command queued anew gets its better place back when it brings it, and
// no worse one.
func TestScripts_ABetterPlaceComesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("x", "y", "z")
	b.holds("x-1")
	place := b.waits("y-1", "0", 0)
	b.waits("z-1", "0", 1)
	require.NoError(t, b.ZRem(t.Context(), queueKey, "y-1").Err())
	worse := b.waits("y-1", "0", 1) // late
	require.Equal(t, place, b.waits("y-1", place, 0))
	require.Equal(t, place, b.waits("y-1", worse, 0), "a worse one does not count")
	require.Equal(t, place, b.waits("y-1", "0", 0))
}

// Who is in front hears so once, and not at all if its own reply says so.
func TestScripts_WhoIsInFrontIsToldOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("a", "b", "c", "d")
	fence := b.holds("x-1")
	for i, owner := range []string{"a-1", "b-1", "c-1", "d-1"} {
		b.waits(owner, "0", int64(i))
	}
	b.release("x-1", fence, 0)
	require.Equal(t, []string{"a-1"}, b.heard("a"), "its reply said that it is in front")
	require.Empty(t, b.heard("b"), "likewise")
	require.Equal(t, []string{"+c-1"}, b.heard("c"))
	b.release("a-1", "0", 0)
	require.Equal(t, []string{"b-1"}, b.heard("b"))
	require.Empty(t, b.heard("c"), "it knows")
	require.Equal(t, []string{"+d-1"}, b.heard("d"))
}

// A dead claim in second place is taken out, and the living third one is told, once.
func TestScripts_ADeadSecond(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("a", "b", "c")
	fence := b.holds("x-1")
	b.waits("a-1", "0", 0)
	b.waits("b-1", "0", 1)
	b.waits("dead-1", "0", 2)
	b.waits("c-1", "0", 3)
	b.release("x-1", fence, 0)
	require.Equal(t, []string{"a-1"}, b.heard("a"))
	require.Equal(t, []string{"+c-1"}, b.heard("c"))
	require.Equal(t, []string{"b-1", "c-1"}, b.ZRange(t.Context(), queueKey, 0, -1).Val())
	require.False(t, b.HExists(t.Context(), seenKey, "dead-1").Val())
}

// A claim that released is over under each of its tries, in company, too; another claim is not.
func TestScripts_TriesOfAClaimThatReleasedAreOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.release("x-1~1", b.holds("x-1~1"), 0)
	require.Equal(t, []any{int64(-1)}, b.run("acquire_batch", []string{lockKey, queueKey, lastKey}, "x-1~2", 60000, ""))
	b.over("x-1~2")
	b.release("y-1~1", b.holds("y-1~1"), 0)
	reply := b.run("acquire_batch", []string{lockKey, queueKey, lastKey}, "x-1~2", 60000, "")
	require.Greater(t, reply[0], int64(1), "it was not the last")
}

// An owner that is over is known at once, in company, too; it gets nothing.
func TestScripts_ManyWithOneThatIsOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fence := b.holds("x-1")
	b.release("x-1", fence, 0)
	keys := []string{lockKey, queueKey, lastKey, "guard:{o}", "guard:{o}:queue", "guard:{o}:last"}
	reply := b.run("acquire_batch", keys, "x-1", 60000, "", "o-1", 60000, "")
	require.Equal(t, int64(-1), reply[0], "acquire is to see to it")
	require.Greater(t, reply[1], int64(1))
	assert.Zero(t, b.Exists(t.Context(), lockKey).Val())
	assert.True(t, strings.HasPrefix(b.last(), fence+" x-1 "), "nothing changed")
}
