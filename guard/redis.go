package guard

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// redisStore is the Store of one Redis: standalone, Sentinel or Cluster.
type redisStore struct {
	conn     carrierOfCommands
	prefix   string
	replicas ackWait // who has to know of a hold
	channels string  // as the scripts take it: see acquire.lua
}

// carrierOfCommands is a *connClient, but in tests.
type carrierOfCommands interface {
	do(ctx context.Context, c command) (any, error)
	start(ctx, leave context.Context, r request)
	startAcked(ctx, leave context.Context, r request, w ackWait)
	pipeline(ctx context.Context, cmds []command) []pipelineReply
	call(ctx context.Context, words ...any) (any, error)
	publish(ctx context.Context, channel, message string) error
	subscribe(ctx context.Context, channel string) *redis.PubSub
	nodeFailed(ctx context.Context, err error)
	server(ctx context.Context, key string) string
	close() error
}

// redisConfig is what newRedisStore needs to know.
type redisConfig struct {
	prefix   string
	timeout  time.Duration // for one attempt
	renewals int           // batches at a time
	replicas ackWait
}

func newRedisStore(client redis.UniversalClient, c redisConfig) *redisStore {
	conn := openClient(client, connOptions{c.timeout, c.renewals, c.replicas.n > 0})
	s := &redisStore{conn: conn, prefix: c.prefix, replicas: c.replicas}
	counts := "0" // a cluster's nodes count their own subscribers only
	if conn.singleAddress() {
		counts = "1"
	}
	s.channels = counts + s.channel("")
	return s
}

// close ends what is under way. What is still given back then goes over connections of
// its own.
func (s *redisStore) close() error { return s.conn.close() }

// channel is where an instance is told to ask.
func (s *redisStore) channel(instance string) string { return s.prefix + ":grant:" + instance }

// Server tells apart, by a key, what fails apart: the nodes of a cluster.
func (s *redisStore) Server(ctx context.Context, key string) string {
	return s.conn.server(ctx, s.lockKey(key))
}

// lockKey keeps {key} a valid hash tag whatever bytes key holds: a '}' would end the
// tag early, and one at the start would make it empty, which scatters the keys of one
// lock over a cluster.
func (s *redisStore) lockKey(key string) string {
	return s.prefix + ":{" + tagEscaper.Replace(key) + "}"
}

var tagEscaper = strings.NewReplacer(`\`, `\\`, `}`, `\)`)

// keys are slices of one string. The lock is the beginning of the queue.
func (s *redisStore) keys(key string) [4]string {
	tag := tagEscaper.Replace(key)
	lock := len(s.prefix) + len(":{") + len(tag) + len("}")
	queue, last := lock+len(":queue"), 2*lock+len(":queue:last")
	all := s.prefix + ":{" + tag + "}:queue" + s.prefix + ":{" + tag + "}:last" + s.prefix + ":{" + tag + "}:seen"
	return [4]string{all[:lock], all[:queue], all[queue:last], all[last:]}
}

// Acquire implements Store.
func (s *redisStore) Acquire(ctx context.Context, c guardstore.Claim) (reply guardstore.ClaimReply, err error) {
	s.acquire(ctx, nil, c, func(r guardstore.ClaimReply, e error) { reply, err = r, e })
	return reply, err
}

// SetDepth implements Store.
func (s *redisStore) SetDepth(ctx context.Context, t guardstore.Grant) (held bool, err error) {
	s.setDepth(ctx, nil, t, func(h bool, e error) { held, err = h, e })
	return held, err
}

// Release implements Store.
func (s *redisStore) Release(ctx context.Context, r guardstore.Release) (reply guardstore.ReleaseReply, err error) {
	s.release(ctx, nil, r, func(r guardstore.ReleaseReply, e error) { reply, err = r, e })
	return reply, err
}

func (s *redisStore) acquire(ctx, leave context.Context, c guardstore.Claim, done func(guardstore.ClaimReply, error)) {
	s.send(ctx, leave, &acquiring{c, s, s.keys(c.Key), c.TTL.Milliseconds(), done}, true)
}

func (s *redisStore) setDepth(ctx, leave context.Context, t guardstore.Grant, done func(bool, error)) {
	set := depthScript.with([]string{s.lockKey(t.Key)}, &t.Owner, t.Depth)
	s.send(ctx, leave, asking{set, func(reply any, err error) {
		if err != nil {
			done(false, classify(err))
			return
		}
		done(parseDepth(reply))
	}}, false)
}

func (s *redisStore) release(ctx, leave context.Context, r guardstore.Release, done func(guardstore.ReleaseReply, error)) {
	s.send(ctx, leave, &releasing{r, s, s.keys(r.Key), r.TTL.Milliseconds(), done}, r.Next != nil)
}

// send sends a request for a caller that leaves at the end of leave, or never if that is
// nil: then it is done before send returns. If it may acquire a lock, replicas have to know.
func (s *redisStore) send(ctx, leave context.Context, r request, acquires bool) {
	if acquires && s.replicas.n > 0 {
		s.conn.startAcked(ctx, leave, r, s.replicas)
		return
	}
	s.conn.start(ctx, leave, r)
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

// answers says that asking again is of no use.
func answers(err error) bool {
	refused := (*guardstore.RefusedError)(nil)
	return err == nil || errors.As(err, &refused)
}
