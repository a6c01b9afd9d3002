package guard

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
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
	closed  atomic.Bool           // both are; what is still given back goes over user

	background *background
	common     *suspicion
	prefix     string

	replicas replicas // who has to know of a hold
	channels string   // as the scripts take it: see acquire.lua
}

func newRedisStore(client redis.UniversalClient, prefix string, timeout time.Duration) *redisStore {
	background := newBackground()
	common := newSuspicion(client, background)
	s := &redisStore{
		user: client, private: privateClient(client, timeout, &renewalPool, common), background: background, common: common,
		calls:  &combiner{client: privateClient(client, timeout, nil, common), timeout: timeout, background: background},
		prefix: prefix,
	}
	s.nodes = newClusterNodes(s.calls, s.private)
	counts := "0" // a cluster's nodes count their own subscribers only
	if _, single := client.(*redis.Client); single {
		counts = "1"
	}
	s.channels = counts + s.channel("")
	return s
}

// close closes the private connections, which also ends the calls on them.
func (s *redisStore) close() error {
	var err error
	if !s.closed.Swap(true) && s.private != s.user {
		err = errors.Join(s.private.Close(), s.calls.client.Close())
	}
	s.common.close()
	<-s.background.join()
	return err
}

func (s *redisStore) client() processor {
	if s.closed.Load() {
		return s.user
	}
	return s.starter()
}

func (s *redisStore) starter() starter {
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

// keys are slices of one string.
func (s *redisStore) keys(key string) []string {
	lock := s.lockKey(key)
	all := lock + ":queue" + lock + ":last" + lock + ":seen"
	n := len(lock)
	queue, last := n+len(":queue"), 2*n+len(":queue:last")
	return []string{lock, all[:queue], all[queue:last], all[last:]}
}

// Acquire implements Store.
func (s *redisStore) Acquire(ctx context.Context, c Claim) (reply ClaimReply, err error) {
	s.acquire(ctx, false, c, func(r ClaimReply, e error) { reply, err = r, e })
	return reply, err
}

// SetDepth implements Store.
func (s *redisStore) SetDepth(ctx context.Context, t Tenure) (held bool, err error) {
	s.setDepth(ctx, false, t, func(h bool, e error) { held, err = h, e })
	return held, err
}

// Release implements Store.
func (s *redisStore) Release(ctx context.Context, r Release) (reply ReleaseReply, err error) {
	s.release(ctx, false, r, func(r ReleaseReply, e error) { reply, err = r, e })
	return reply, err
}

func (s *redisStore) acquire(ctx context.Context, apart bool, c Claim, done func(ClaimReply, error)) {
	ttl, place := c.TTL.Milliseconds(), any("")
	if c.Queue {
		place = &c.Place
	}
	args := []any{&c.Owner, &s.channels, &ttl, place, &c.Metadata, &c.Floor}
	s.run(ctx, acquireScript, apart, true, s.keys(c.Key), args, func(reply any, lag, err error) {
		if err != nil {
			done(ClaimReply{}, classify(err))
			return
		}
		r, err := parseClaimReply(reply)
		if r.Status == ClaimHeld && lag != nil {
			r, err = ClaimReply{}, lag
		}
		done(r, err)
	})
}

func (s *redisStore) setDepth(ctx context.Context, apart bool, t Tenure, done func(bool, error)) {
	args := []any{&t.Owner, t.Depth}
	s.run(ctx, depthScript, apart, false, []string{s.lockKey(t.Key)}, args, func(reply any, _, err error) {
		if err != nil {
			done(false, classify(err))
			return
		}
		done(parseHeld(reply))
	})
}

func (s *redisStore) release(ctx context.Context, apart bool, r Release, done func(ReleaseReply, error)) {
	next := NextClaim{}
	if r.Next != nil {
		next = *r.Next
	}
	ttl := r.TTL.Milliseconds()
	args := []any{&r.Owner, &s.channels, &ttl, &r.Fence, digit(r.Bury), &next.Owner, &next.Metadata}
	s.run(ctx, releaseScript, apart, r.Next != nil, s.keys(r.Key), args, func(reply any, lag, err error) {
		if err != nil {
			done(ReleaseReply{}, classify(err))
			return
		}
		got, err := parseReleaseReply(reply)
		if lag != nil {
			got.Next = ClaimReply{} // it asks by itself, and waits for the replicas then
		}
		done(got, err)
	})
}

// run executes a script, apart from the caller or not. If it may acquire a lock, lag says
// that too few replicas know.
func (s *redisStore) run(ctx context.Context, script *script, apart, acquires bool,
	keys []string, args []any, done func(reply any, lag, err error),
) {
	switch {
	case acquires && s.replicas.n > 0 && !s.closed.Load():
		call := func() { done(s.replicas.run(ctx, s.calls.client, script, keys, args)) }
		if !apart || !s.background.spawn(call) {
			call()
		}
	case apart && !s.closed.Load():
		script.start(ctx, s.starter(), keys, args, func(reply any, err error) { done(reply, nil, err) })
	default:
		reply, err := script.run(ctx, s.client(), keys, args...)
		done(reply, nil, err)
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
	return &RefusedError{err}
}
