package guard

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// redisStore is the Store of one Redis: standalone, Sentinel or Cluster. It goes over
// connections of its own, on which deadlines hold and which user code cannot exhaust.
// Callers' commands and renewals share none: when the network goes silent, each connection
// that callers left idle would cost a renewal one more try.
type redisStore struct {
	user    redis.UniversalClient
	private redis.UniversalClient // for renewals and messages
	calls   *combiner             // on a client of its own
	nodes   *clusterNodes         // makes the calls, on a cluster
	bounds  bounds
	closing chan struct{} // ends dials
	closed  atomic.Bool   // all are; what is still given back goes over connections of its own

	tasks  *task.Group
	prefix string

	common   *suspicion
	replicas replicas              // who has to know of a hold
	acked    redis.UniversalClient // for acquiring with replicas
	channels string                // as the scripts take it: see acquire.lua
}

func newRedisStore(client redis.UniversalClient, prefix string, timeout time.Duration) *redisStore {
	background, closing := task.NewGroup(), make(chan struct{})
	b := bounds{timeout, closing}
	common := newSuspicion(client, closing, background)
	s := &redisStore{
		user: client, private: privateClient(client, b, &renewalPool, common), tasks: background,
		calls:  newCombiner(newLanes(client, b, common), timeout, background),
		bounds: b, closing: closing, prefix: prefix, common: common,
	}
	s.nodes = newClusterNodes(s.calls, s.private)
	counts := "0" // a cluster's nodes count their own subscribers only
	if _, single := client.(*redis.Client); single {
		counts = "1"
	}
	s.channels = counts + s.channel("")
	return s
}

// waitFor makes acquisitions wait for replicas: each on a connection of its own, of as many
// as the user's pool may have.
func (s *redisStore) waitFor(r replicas) {
	if r.n > 0 {
		s.replicas, s.acked = r, privateClient(s.user, s.bounds, nil, s.common)
	}
}

// close closes the private connections, which also ends the calls on them.
func (s *redisStore) close() error {
	var err error
	if !s.closed.Swap(true) {
		close(s.closing)
		err = errors.Join(s.private.Close(), s.calls.lanes.close())
		if s.acked != nil {
			err = errors.Join(err, s.acked.Close())
		}
	}
	<-s.tasks.Close()
	return err
}

// afterwards is for what is still given back when the store is closed: a client for one
// command. The user's own has other timeouts, or none.
func (s *redisStore) afterwards() redis.UniversalClient {
	return privateClient(s.user, bounds{timeout: s.bounds.timeout}, &lanePool, &suspicion{})
}

// do sends a command and waits.
func (s *redisStore) do(ctx context.Context, c command) (any, error) {
	if s.closed.Load() {
		client := s.afterwards()
		defer func() { _ = client.Close() }()
		return run(ctx, c, client)
	}
	return s.courier().do(ctx, c)
}

// courier is for callers' commands.
func (s *redisStore) courier() courier {
	if s.nodes != nil {
		return s.nodes
	}
	return s.calls
}

// channel is where an instance is told to ask.
func (s *redisStore) channel(instance string) string { return s.prefix + ":grant:" + instance }

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
		done(parseHeld(reply))
	}}, false)
}

func (s *redisStore) release(ctx, leave context.Context, r guardstore.Release, done func(guardstore.ReleaseReply, error)) {
	s.send(ctx, leave, &releasing{r, s, s.keys(r.Key), r.TTL.Milliseconds(), done}, r.Next != nil)
}

// send sends a request for a caller that leaves at the end of leave, or never if that is
// nil: then it is done before send returns. If it may acquire a lock, replicas have to know.
func (s *redisStore) send(ctx, leave context.Context, r request, acquires bool) {
	switch {
	case acquires && s.replicas.n > 0 && !s.closed.Load():
		call := func() { r.done(s.replicas.run(ctx, s.acked, r)) }
		if leave == nil || !s.tasks.Go(call) {
			call()
		}
	case leave != nil && !s.closed.Load():
		s.courier().start(parcel{ctx: ctx, leave: leave, request: r})
	default:
		r.done(s.do(ctx, r))
	}
}

// keep is how long the highest fence is remembered, in milliseconds, if it is not ahead
// of the server's clock.
func keep(ttl time.Duration) int64 { return max(2*ttl, time.Minute).Milliseconds() }

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
