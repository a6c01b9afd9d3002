package modeltest

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"math"
	"slices"
	"strconv"
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
	lockKey  = "redlatch:{" + Key + "}"
	queueKey = lockKey + ":queue"
	endedKey = lockKey + ":ended"
	seenKey  = lockKey + ":seen"
	heldKey  = lockKey + ":holders"
)

// Keys are those that most scripts take, the lock first.
var Keys = []string{lockKey, queueKey, endedKey, seenKey, heldKey}

// Channels is the prefix of the channels of the instances.
var Channels = redisstore.Channel("redlatch", "")

// Content is the data of one lock in Redis. A ttl of 0 means that the key does not exist.
type Content struct {
	Lock              map[string]string
	Queue             map[string]float64
	Ended             map[string]float64
	Seen              map[string]string
	Holders           map[string]float64
	LockTTL, EndedTTL time.Duration
	QueueTTL, SeenTTL time.Duration
	HoldersTTL        time.Duration
}

// TTLs are those of Keys.
func (c *Content) TTLs() []*time.Duration {
	return []*time.Duration{&c.LockTTL, &c.QueueTTL, &c.EndedTTL, &c.SeenTTL, &c.HoldersTTL}
}

// InOrder is a queue, the first one first.
func InOrder(queue map[string]float64) (names []string) {
	for o := range queue {
		names = append(names, o)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(queue[a], queue[b]), cmp.Compare(a, b)) })
	return names
}

// clocked has a script read the clock that Put sets.
const clocked = `local real = redis
local redis = setmetatable({call = function(name, ...)
  if name == 'TIME' then return real.call('LRANGE', 'clock', 0, 1) end
  return real.call(name, ...)
end}, {__index = real})
`

// Server runs scripts on a Redis.
type Server struct {
	Client  *redis.Client
	Scripts map[string]string    // name to sha
	Embed   *miniredis.Miniredis // nil for a real one

	ear   *redis.PubSub
	marks int
}

// Embedded starts a Redis in this process. The instances get messages: "i0" and so on, as many as there are owners,
// and "g". All others are deaf.
func Embedded(t *testing.T, owners int) *Server {
	t.Helper()
	m := miniredis.RunT(t)
	s := &Server{Client: redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1}), Embed: m, Scripts: map[string]string{}}
	t.Cleanup(func() { _ = s.Client.Close() })
	s.begin(t, owners)
	return s
}

// Real starts a redis-server.
func Real(t *testing.T, owners int) *Server {
	t.Helper()
	s := &Server{Client: redistest.Start(t).Client(t), Scripts: map[string]string{}}
	s.begin(t, owners)
	return s
}

func (s *Server) begin(t *testing.T, owners int) {
	t.Helper()
	for _, name := range []string{"acquire", "release", "renew"} {
		sha, err := s.Client.ScriptLoad(t.Context(), clocked+redisstore.Load(embed.FS{}, name).Source).Result()
		require.NoError(t, err, name)
		s.Scripts[name] = sha
	}
	channels := []string{Channels + "mark", Channels + "g"}
	for o := range owners {
		channels = append(channels, fmt.Sprint(Channels, "i", o))
	}
	s.ear = s.Client.Subscribe(t.Context(), channels...)
	t.Cleanup(func() { _ = s.ear.Close() })
	for range channels {
		_, err := s.ear.Receive(t.Context())
		require.NoError(t, err)
	}
}

// Messages are those that came since it was called last.
func (s *Server) Messages(t *testing.T) (heard []string) {
	t.Helper()
	s.marks++
	mark := fmt.Sprint("mark ", s.marks)
	require.NoError(t, s.Client.Publish(t.Context(), Channels+"mark", mark).Err())
	for {
		m, err := s.ear.ReceiveMessage(t.Context())
		require.NoError(t, err)
		if m.Payload == mark {
			return heard
		}
		heard = append(heard, m.Payload)
	}
}

// Put sets the clock of the scripts, and puts there what a script is to find, and nothing else.
func (s *Server) Put(ctx context.Context, at time.Time, c Content) error {
	_, err := s.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.FlushAll(ctx)
		p.RPush(ctx, "clock", at.Unix(), at.Nanosecond()/1000)
		for key, hash := range map[string]map[string]string{lockKey: c.Lock, seenKey: c.Seen} {
			if len(hash) > 0 {
				p.HSet(ctx, key, hash)
			}
		}
		for key, set := range map[string]map[string]float64{queueKey: c.Queue, endedKey: c.Ended, heldKey: c.Holders} {
			for name, score := range set {
				p.Do(ctx, "zadd", key, strconv.FormatFloat(score, 'f', 0, 64), name)
			}
		}
		for i, ttl := range c.TTLs() {
			p.PExpire(ctx, Keys[i], *ttl)
		}
		return nil
	})
	return err
}

// Look reads the data.
func (s *Server) Look(ctx context.Context) (Content, error) {
	c := Content{Queue: map[string]float64{}, Ended: map[string]float64{}, Holders: map[string]float64{}}
	p := s.Client.Pipeline()
	lock, seen := p.HGetAll(ctx, lockKey), p.HGetAll(ctx, seenKey)
	queue, ended, holders := p.ZRangeWithScores(ctx, queueKey, 0, -1), p.ZRangeWithScores(ctx, endedKey, 0, -1), p.ZRangeWithScores(ctx, heldKey, 0, -1)
	lives := make([]*redis.DurationCmd, len(Keys))
	for i, key := range Keys {
		lives[i] = p.PTTL(ctx, key)
	}
	if _, err := p.Exec(ctx); err != nil && err != redis.Nil { //nolint:errorlint // as go-redis has it
		return c, err
	}
	c.Lock, c.Seen = lock.Val(), seen.Val()
	for _, set := range []struct {
		to   map[string]float64
		from []redis.Z
	}{{c.Queue, queue.Val()}, {c.Ended, ended.Val()}, {c.Holders, holders.Val()}} {
		for _, z := range set.from {
			set.to[z.Member.(string)] = z.Score
		}
	}
	for i, to := range c.TTLs() {
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
