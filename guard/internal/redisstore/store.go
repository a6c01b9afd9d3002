package redisstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
	"github.com/redlatch/redlatch/guard/internal/rediskey"
)

// Store is the Store of one Redis: standalone, Sentinel or Cluster.
type Store struct {
	conn     conn
	prefix   string
	replicas redisconn.AckWait // who has to know of a hold
	channels string            // as the scripts take it: see acquire.lua
}

// conn is a *redisconn.Client, but in tests.
type conn interface {
	Do(ctx context.Context, c redisconn.Command) (any, error)
	Start(ctx, leave context.Context, r redisconn.Request)
	StartAcked(ctx, leave context.Context, r redisconn.Request, w redisconn.AckWait)
	StartTogether(ctx context.Context, requests []redisconn.Request)
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
	Renewals       int               // batches at a time
	Replicas       redisconn.AckWait // who has to know of a hold; the zero value is nobody
}

// New makes a Store with the options of a client, which it does not use. It sends nothing.
func New(client redis.UniversalClient, c Config) *Store {
	conn := redisconn.Open(client, redisconn.Options{AttemptTimeout: c.AttemptTimeout, Pipelines: c.Renewals, Acked: c.Replicas.N > 0})
	s := &Store{conn: conn, prefix: c.Prefix, replicas: c.Replicas}
	counts := "0" // a cluster's nodes count their own subscribers only
	if conn.SingleAddress() {
		counts = "1"
	}
	s.channels = counts + s.channel("")
	return s
}

// Close ends what is under way. What is still given back then goes over connections of
// its own.
func (s *Store) Close() error { return s.conn.Close() }

// channel is where an instance is told to ask.
func (s *Store) channel(instance string) string { return rediskey.Channel(s.prefix, instance) }

// Server tells apart, by a key, what fails apart: the nodes of a cluster.
func (s *Store) Server(ctx context.Context, key string) string {
	return s.conn.Server(ctx, s.lockKey(key))
}

func (s *Store) lockKey(key string) string { return rediskey.Lock(s.prefix, key) }

// keys are slices of one string. The lock is the beginning of the queue.
func (s *Store) keys(key string) [4]string {
	tag := rediskey.Tag(key)
	lock := len(s.prefix) + len(":{") + len(tag) + len("}")
	queue, last := lock+len(":queue"), 2*lock+len(":queue:last")
	all := s.prefix + ":{" + tag + "}:queue" + s.prefix + ":{" + tag + "}:last" + s.prefix + ":{" + tag + "}:seen"
	return [4]string{all[:lock], all[:queue], all[queue:last], all[last:]}
}

// Acquire implements guardstore.Store.
func (s *Store) Acquire(ctx context.Context, c guardstore.Claim) (reply guardstore.ClaimReply, err error) {
	s.StartAcquire(ctx, nil, c, func(r guardstore.ClaimReply, e error) { reply, err = r, e })
	return reply, err
}

// SetDepth implements guardstore.Store.
func (s *Store) SetDepth(ctx context.Context, t guardstore.Grant) (held bool, err error) {
	s.StartSetDepth(ctx, nil, t, func(h bool, e error) { held, err = h, e })
	return held, err
}

// Release implements guardstore.Store.
func (s *Store) Release(ctx context.Context, r guardstore.Release) (reply guardstore.ReleaseReply, err error) {
	s.StartRelease(ctx, nil, r, func(r guardstore.ReleaseReply, e error) { reply, err = r, e })
	return reply, err
}

// StartAcquire is Acquire for a caller that leaves at the end of leave; see send.
func (s *Store) StartAcquire(ctx, leave context.Context, c guardstore.Claim, done func(guardstore.ClaimReply, error)) {
	s.send(ctx, leave, &acquireCommand{c, s, s.keys(c.Key), c.TTL.Milliseconds(), done}, true)
}

// StartSetDepth is SetDepth for a caller that leaves at the end of leave; see send.
func (s *Store) StartSetDepth(ctx, leave context.Context, t guardstore.Grant, done func(bool, error)) {
	set := redisconn.Command(setDepthScript.With([]string{s.lockKey(t.Key)}, &t.Owner, t.Depth))
	if !exclusive(t.Limit) {
		set = s.renewal(&t) // there is no counter, and that it is still held is the point
	}
	s.send(ctx, leave, redisconn.Asking{Command: set, Then: func(reply any, err error) {
		if err != nil {
			done(false, classify(err))
			return
		}
		done(parseDepth(reply))
	}}, false)
}

// StartRelease is Release for a caller that leaves at the end of leave; see send.
func (s *Store) StartRelease(ctx, leave context.Context, r guardstore.Release, done func(guardstore.ReleaseReply, error)) {
	s.send(ctx, leave, &releaseCommand{r, s, s.keys(r.Key), r.TTL.Milliseconds(), done}, r.Next != nil)
}

// send sends a request for a caller that leaves at the end of leave, or never if that is
// nil: then it is done before send returns. If it may acquire a lock, replicas have to know.
func (s *Store) send(ctx, leave context.Context, r redisconn.Request, acquires bool) {
	if acquires && s.replicas.N > 0 {
		s.conn.StartAcked(ctx, leave, r, s.replicas)
		return
	}
	s.conn.Start(ctx, leave, r)
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// transient are the replies by which Redis says "not now": nothing was executed, and
// asking again is of use.
var transient = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY ",
	"MOVED", "ASK", "NOSCRIPT", "UNBLOCKED", "ERR max number of clients",
}

// classify tells Redis's own refusals from errors that leave the outcome unknown.
func classify(err error) error {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return err
	}
	for _, prefix := range transient {
		if redis.HasErrorPrefix(err, prefix) || strings.HasPrefix(answer.Error(), prefix) {
			return err
		}
	}
	return &guardstore.RefusedError{Err: err}
}

// Answered says that asking again is of no use.
func Answered(err error) bool {
	refused := (*guardstore.RefusedError)(nil)
	return err == nil || errors.As(err, &refused)
}
