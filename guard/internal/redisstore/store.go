package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// Store is the Store of one Redis: standalone, Sentinel or Cluster.
type Store struct {
	conn     conn
	prefix   string
	replicas redisconn.AckWait // how many replicas have to know of a hold
	channels string            // as the scripts take it: see acquire.lua
	clocks   serverClocks
	now      func() instant // clock.Now, but in tests
}

// conn is a *redisconn.Client, but in tests.
type conn interface {
	Do(ctx context.Context, c redisconn.Command) (any, error)
	DoAcked(ctx context.Context, c redisconn.Command, w redisconn.AckWait) (any, error)
	Pipeline(ctx context.Context, cmds []redisconn.Command) []redisconn.Reply
	Call(ctx context.Context, words ...any) (any, error)
	Publish(ctx context.Context, channel, message string) error
	Subscribe(ctx context.Context, channel string) *redis.PubSub
	NodeFailed(ctx context.Context, err error)
	Server(ctx context.Context, key string) string
	Close() error
}

// Config is what New needs to know.
type Config struct {
	Prefix         string
	AttemptTimeout time.Duration     // for one attempt
	Replicas       redisconn.AckWait // how many replicas have to know of a hold; the zero value is none

	OnClient func(client redis.UniversalClient) // called with each client of go-redis that is made; may be nil
}

// New makes a Store with the options of a client, which it does not use. It sends nothing.
func New(client redis.UniversalClient, c Config) *Store {
	conn := redisconn.Open(client, redisconn.Options{AttemptTimeout: c.AttemptTimeout, OnClient: c.OnClient})
	s := &Store{conn: conn, prefix: c.Prefix, replicas: c.Replicas, now: clock.Now}
	counts := "0" // a cluster's nodes count their own subscribers only
	if conn.SingleAddress() {
		counts = "1"
	}
	s.channels = counts + s.channel("")
	return s
}

// Close ends the calls that are under way. A release after Close has a connection of its own.
func (s *Store) Close() error { return s.conn.Close() }

// Announce implements guardstore.Announcer.
func (s *Store) Announce(ctx context.Context, instance, name string, life time.Duration) error {
	_, err := s.conn.Call(ctx, "set", s.prefix+":instance:"+instance, name, "px", life.Milliseconds())
	return err
}

// channel is where an instance gets the message to ask.
func (s *Store) channel(instance string) string { return Channel(s.prefix, instance) }

// Server names the server of a key. Servers fail independently: the nodes of a cluster.
func (s *Store) Server(ctx context.Context, key string) string {
	return s.conn.Server(ctx, s.lockKey(key))
}

// clock returns what the Store knows of the clock of a key's server.
func (s *Store) clock(ctx context.Context, key string) *serverClock {
	return s.clocks.of(s.Server(ctx, key), key, s.now())
}

// Channels is how scripts take the prefix of the channels: see acquire.lua.
func (s *Store) Channels() string { return s.channels }

func (s *Store) lockKey(key string) string { return LockKey(s.prefix, key) }

// keys are slices of one string. The lock is the beginning of the queue.
func (s *Store) keys(key string) [5]string {
	base := s.prefix + ":{" + escape(key) + "}"
	all := base + ":queue" + base + ":ended" + base + ":seen" + base + ":holders"
	queue := len(base) + len(":queue")
	ended := queue + len(base) + len(":ended")
	seen := ended + len(base) + len(":seen")
	return [5]string{all[:len(base)], all[:queue], all[queue:ended], all[ended:seen], all[seen:]}
}

// Acquire implements guardstore.Store. A fence at or below the high water is of a clock that was set back: the claim
// is sent again, and its hold gets a fence above.
func (s *Store) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	server := s.clock(ctx, c.Key)
	for c.FenceAbove = max(c.FenceAbove, server.above(s.now())); ; c.FenceAbove = server.highWater() {
		var reply any
		var err error
		cmd, sent := &acquireCommand{c, s, s.keys(c.Key), c.TTL.Milliseconds()}, s.now()
		if s.replicas.N > 0 {
			reply, err = s.conn.DoAcked(ctx, cmd, s.replicas)
		} else {
			reply, err = s.conn.Do(ctx, cmd)
		}
		r, at, err := acquired(reply, err)
		server.observe(at, sent, s.now())
		if !Answered(err) {
			server.doubt()
		}
		if err != nil || r.Status != guardstore.ClaimHeld || r.Fence > server.highWater() {
			return r, err
		}
	}
}

// Release implements guardstore.Store.
func (s *Store) Release(ctx context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	if r.Record == nil {
		return released(s.conn.Do(ctx, s.release(ctx, releaseScript, r)))
	}
	cmd := s.release(ctx, releaseScript, r, s.recordKey(r.Key))
	if s.replicas.N > 0 {
		return released(s.conn.DoAcked(ctx, cmd, s.replicas)) // a result that no replica knows of is not kept
	}
	return released(s.conn.Do(ctx, cmd))
}

// ReleaseBy is Release by a script that includes that of Release, and has more keys.
func (s *Store) ReleaseBy(ctx context.Context, script *redisconn.Script, r guardstore.Release, more ...string) (guardstore.ReleaseReply, error) {
	return released(s.conn.Do(ctx, s.release(ctx, script, r, more...)))
}

func (s *Store) release(ctx context.Context, script *redisconn.Script, r guardstore.Release, more ...string) *releaseCommand {
	careful := s.clock(ctx, r.Key).mayBeBelow(r.Fence, s.now())
	return &releaseCommand{r, s, script, s.keys(r.Key), more, careful}
}

// Do sends a command to the same Redis. What Redis refuses is a RefusedError.
func (s *Store) Do(ctx context.Context, c redisconn.Command) (any, error) {
	reply, err := s.conn.Do(ctx, c)
	if err != nil {
		return nil, classify(err)
	}
	return reply, nil
}

// Call is Do for a command that is no script.
func (s *Store) Call(ctx context.Context, words ...any) (any, error) {
	reply, err := s.conn.Call(ctx, words...)
	if err != nil {
		return nil, classify(err)
	}
	return reply, nil
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// final are the refusals that do not pass: the caller has to mend something first. Any other may pass, also
// the error of a proxy. Redis 6.2 puts the error of a script's command into one of its own.
var final = []string{
	"WRONGTYPE ", "NOPERM ", "user executing the script can't", "ACL failure in script", "ERR unknown command",
}

// classify makes a RefusedError of a final refusal.
func classify(err error) error {
	if errors.Is(err, redisconn.ErrNotSent) {
		return fmt.Errorf("%w (%w)", err, guardstore.ErrNotSent)
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return err
	}
	if errors.Is(err, redisconn.ErrNeedsCluster) {
		return &guardstore.RefusedError{Err: err}
	}
	for _, phrase := range final {
		if strings.Contains(answer.Error(), phrase) {
			return &guardstore.RefusedError{Err: err}
		}
	}
	return err
}

// Answered returns whether the same command would have the same answer: it succeeded, or Redis refused it for good.
func Answered(err error) bool {
	refused := (*guardstore.RefusedError)(nil)
	return err == nil || errors.As(err, &refused)
}
