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
	shared   []string          // of all claims and releases: the prefix of the channels, see acquire.lua
	clocks   serverClocks
	now      func() instant // clock.Now, but in tests
}

// conn is a *redisconn.Client, but in tests.
type conn interface {
	Do(ctx context.Context, c redisconn.Command) (any, error)
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
	s.shared = []string{counts + Channel(s.prefix, "")}
	return s
}

// Close ends the calls that are under way. A release after Close has a connection of its own.
func (s *Store) Close() error { return s.conn.Close() }

// Announce implements guardstore.Announcer.
func (s *Store) Announce(ctx context.Context, instance, name string, life time.Duration) error {
	_, err := s.conn.Call(ctx, "set", s.prefix+":instance:"+instance, name, "px", life.Milliseconds())
	return err
}

// Server names the server of a key. Servers fail independently: the nodes of a cluster.
func (s *Store) Server(ctx context.Context, key string) string {
	return s.conn.Server(ctx, LockKey(s.prefix, key))
}

// Channels is how scripts take the prefix of the channels: see acquire.lua.
func (s *Store) Channels() string { return s.shared[0] }

// Acquire implements guardstore.Store. A fence at or below the high water is of a clock that was set back: the claim
// is sent again, and its hold gets a fence above.
func (s *Store) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	keys := s.keys(c.Key)
	server := s.clock(ctx, c.Key, keys[0])
	for high := server.above(s.now()); ; {
		c.FenceAbove = max(c.FenceAbove, high)
		sent := s.now()
		r, at, err := parseClaim(s.conn.Do(ctx, s.acquireCommand(&c, keys)))
		high = server.observe(at, err, sent, s.now())
		if r.Status != guardstore.ClaimHeld || r.Fence > high {
			return r, err
		}
	}
}

// Release implements guardstore.Store.
func (s *Store) Release(ctx context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	return parseRelease(s.conn.Do(ctx, s.releaseCommand(ctx, &r)))
}

// ReleaseBy is Release by a script that includes that of Release, and has a key more.
func (s *Store) ReleaseBy(ctx context.Context, script *redisconn.Script, r guardstore.Release, key string) (guardstore.ReleaseReply, error) {
	cmd := s.releaseCommand(ctx, &r)
	cmd.Script, cmd.Keys = script, append(cmd.Keys, key)
	return parseRelease(s.conn.Do(ctx, cmd))
}

// Renew sends the batch as one pipeline, or on a cluster as one for each node. A caller waits for a renewal without a ttl:
// it goes with the commands of callers.
func (s *Store) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	sent := s.now()
	cmds := make([]redisconn.Command, len(batch))
	for i := range batch {
		cmds[i] = s.renewCommand(&batch[i])
	}
	var answers []redisconn.Reply
	if len(batch) == 1 && batch[0].TTL == 0 {
		value, err := s.conn.Do(ctx, cmds[0])
		answers = []redisconn.Reply{{Value: value, Err: err}}
	} else {
		answers = s.conn.Pipeline(ctx, cmds)
	}
	replies := make([]guardstore.RenewReply, len(batch))
	for i, a := range answers {
		r, at := parseRenewed(a.Value, a.Err)
		s.clock(ctx, batch[i].Key, cmds[i].Keys[0]).observe(at, r.Err, sent, s.now())
		replies[i] = r
	}
	return replies
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
