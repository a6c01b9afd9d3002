package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The Redis keys of the lock.
const (
	lockKey  = "guard:{k}"
	queueKey = lockKey + ":queue"
	lastKey  = lockKey + ":last"
	seenKey  = lockKey + ":seen"
)

var lockKeys = []string{lockKey, queueKey, lastKey, seenKey}

// server runs scripts on a Redis.
type server struct {
	client   *redis.Client
	scripts  map[string]string
	embed    *miniredis.Miniredis // nil for a real one
	messages func(ctx context.Context) []string
}

// embedded starts a Redis with a clock that is set. Scripts are changed by alter, if there
// is one.
func embedded(t *testing.T, alter func(name, source string) string) *server {
	t.Helper()
	m := miniredis.RunT(t)
	s := &server{client: redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1}), embed: m, scripts: map[string]string{}}
	t.Cleanup(func() { _ = s.client.Close() })
	s.load(t, alter)
	s.listen(t)
	return s
}

// real starts a redis-server, whose clock goes on.
func real(t *testing.T) *server {
	t.Helper()
	s := &server{client: redistest.Start(t).Client(t), scripts: map[string]string{}}
	s.load(t, nil)
	s.listen(t)
	return s
}

func (s *server) load(t *testing.T, alter func(name, source string) string) {
	t.Helper()
	for name, source := range redisstore.Scripts() {
		if alter != nil {
			source = alter(name, source)
		}
		sha, err := s.client.ScriptLoad(t.Context(), source).Result()
		require.NoError(t, err, name)
		s.scripts[name] = sha
	}
}

// listen has everybody but the deaf hear what they are told.
func (s *server) listen(t *testing.T) {
	t.Helper()
	channels := []string{"c:mark", "c:g"}
	for o := range owners {
		channels = append(channels, fmt.Sprint("c:i", o))
	}
	ear := s.client.Subscribe(t.Context(), channels...)
	t.Cleanup(func() { _ = ear.Close() })
	for range channels {
		_, err := ear.Receive(t.Context())
		require.NoError(t, err)
	}
	n := 0
	s.messages = func(ctx context.Context) (heard []string) {
		n++
		mark := fmt.Sprint("mark ", n)
		require.NoError(t, s.client.Publish(ctx, "c:mark", mark).Err())
		for {
			m, err := ear.ReceiveMessage(ctx)
			require.NoError(t, err)
			if m.Payload == mark {
				return heard
			}
			heard = append(heard, m.Payload)
		}
	}
}

// put puts there what a script is to find.
func (s *server) put(ctx context.Context, c content) error {
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.FlushAll(ctx)
		if len(c.Lock) > 0 {
			p.HSet(ctx, lockKey, c.Lock)
			p.PExpire(ctx, lockKey, c.LockTTL)
		}
		if c.Last != "" {
			p.Set(ctx, lastKey, c.Last, c.LastTTL)
		}
		for who, score := range c.Queue {
			p.Do(ctx, "zadd", queueKey, strconv.FormatFloat(score, 'f', 0, 64), who)
		}
		if len(c.Queue) > 0 {
			p.PExpire(ctx, queueKey, c.QueueTTL)
		}
		if len(c.Seen) > 0 {
			p.HSet(ctx, seenKey, c.Seen)
			p.PExpire(ctx, seenKey, c.SeenTTL)
		}
		return nil
	})
	return err
}

// look reads what is there.
func (s *server) look(ctx context.Context) (content, error) {
	c := content{Queue: map[string]float64{}}
	p := s.client.Pipeline()
	lock, last, queue, seen := p.HGetAll(ctx, lockKey), p.Get(ctx, lastKey), p.ZRangeWithScores(ctx, queueKey, 0, -1), p.HGetAll(ctx, seenKey)
	lives := make([]*redis.DurationCmd, len(lockKeys))
	for i, key := range lockKeys {
		lives[i] = p.PTTL(ctx, key)
	}
	if _, err := p.Exec(ctx); err != nil && err != redis.Nil { //nolint:errorlint // as go-redis has it
		return c, err
	}
	c.Lock, c.Last, c.Seen = lock.Val(), last.Val(), seen.Val()
	for _, z := range queue.Val() {
		c.Queue[z.Member.(string)] = z.Score
	}
	for i, to := range []*time.Duration{&c.LockTTL, &c.QueueTTL, &c.LastTTL, &c.SeenTTL} {
		*to = lives[i].Val()
		switch *to {
		case -2:
			*to = 0
		case -1:
			*to = math.MaxInt64 // for ever
		}
	}
	return c, nil
}

func (s *script) args() (name string, args []any) {
	prefix := "1c:"
	if s.anywhere {
		prefix = "0c:"
	}
	own, ms := s.name(0), ttl.Milliseconds()
	if !s.release {
		place := ""
		switch {
		case s.queue && s.place > 0:
			place = fmt.Sprint(s.placeOf(s.place))
		case s.queue:
			place = "0"
		}
		return "acquire", []any{own, prefix, ms, place, s.meta(0), s.text(s.floor)}
	}
	next, inDoubt := "", 0
	if s.next {
		next = s.name(1)
	}
	if s.inDoubt {
		inDoubt = 1
	}
	return "release", []any{own, prefix, ms, s.text(s.above), inDoubt, next, s.meta(1)}
}

// run runs a call on a server, and says what is not as it should be.
func (s *server) run(t *testing.T, r *rules, c call, v *variant) string {
	t.Helper()
	ctx := t.Context()
	at, spread := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 8*time.Microsecond
	if s.embed == nil {
		now, err := s.client.Time(ctx).Result()
		require.NoError(t, err)
		at, spread = now, 20*time.Second
	} else {
		s.embed.SetTime(at)
	}
	w := write(r, c, v, at.UnixMicro(), spread.Microseconds())
	require.NoError(t, s.put(ctx, w.before))
	name, args := w.args()
	reply, err := s.client.EvalSha(ctx, s.scripts[name], lockKeys, args...).Result()
	if err != nil {
		return fmt.Sprintf("%s %v: %v", name, args, err)
	}
	after, err := s.look(ctx)
	require.NoError(t, err)
	heard := s.messages(ctx)
	return w.differs(name, args, reply.([]any), after, heard, s.embed == nil)
}

// differs compares what a script did with what the model says.
func (s *script) differs(name string, args, reply []any, after content, heard []string, moves bool) string {
	see := func(x any) string { return fmt.Sprintf("%+v", x) }
	if moves {
		see = s.still
		for _, p := range [][2]*time.Duration{
			{&after.LockTTL, &s.after.LockTTL},
			{&after.LastTTL, &s.after.LastTTL},
			{&after.QueueTTL, &s.after.QueueTTL},
			{&after.SeenTTL, &s.after.SeenTTL},
		} {
			if *p[0] <= *p[1] && *p[0] > *p[1]-slack {
				*p[0] = *p[1]
			}
		}
		if len(reply) == 5 && len(s.reply) == 5 {
			if left, ok := reply[1].(int64); ok && left <= s.reply[1].(int64) && left > s.reply[1].(int64)-slack.Milliseconds() {
				reply[1] = s.reply[1]
			}
		}
	}
	// A hold that is confirmed under a higher fence keeps its @ahead. It costs hand-overs.
	if s.holder == 0 && s.over.fence != s.fence && !s.over.ahead && s.ahead {
		after.Lock, s.after.Lock = maps.Clone(after.Lock), maps.Clone(s.after.Lock)
		for _, field := range []string{"@ahead", "@since"} {
			delete(after.Lock, field)
			delete(s.after.Lock, field)
		}
	}
	var wrong []string
	for _, c := range []struct {
		what      string
		want, got any
	}{
		{"reply", s.reply, reply},
		{"lock", s.after.Lock, after.Lock},
		{"its ttl", s.after.LockTTL, after.LockTTL},
		{"last", s.after.Last, after.Last},
		{"its ttl", s.after.LastTTL, after.LastTTL},
		{"queue", s.after.Queue, after.Queue},
		{"its ttl", s.after.QueueTTL, after.QueueTTL},
		{"seen", s.after.Seen, after.Seen},
		{"its ttl", s.after.SeenTTL, after.SeenTTL},
		{"messages", slices.Concat([]string{}, s.heard), slices.Concat([]string{}, heard)},
	} {
		if want, got := see(c.want), see(c.got); want != got {
			wrong = append(wrong, fmt.Sprintf("  %s: model %s\n    script %s", c.what, want, got))
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("%+v\n%s, found %+v\n%s %v\n%s", s.call, s.variant.name, s.before, name, args, strings.Join(wrong, "\n"))
}

// slack is how long a script and what is done before may take on a server whose clock goes on.
const slack = 4 * time.Second

var number = regexp.MustCompile(`\d{14,}|\d\.\d+e\+1\d`)

// still writes every time that may be that of the script as the same one.
func (s *script) still(x any) string {
	return number.ReplaceAllStringFunc(fmt.Sprintf("%+v", x), func(text string) string {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return text
		}
		n := int64(f)
		for _, at := range []int64{s.at, s.at + keeps.Microseconds()} {
			if n >= at && n < at+slack.Microseconds() {
				return fmt.Sprint("clock", cmp.Compare(at, s.at))
			}
		}
		return strconv.FormatInt(n, 10)
	})
}
