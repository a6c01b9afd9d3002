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
	closed  atomic.Bool           // both are; what is still given back goes over user
	prefix  string
	counts  string // "1" where PUBLISH in a script counts every receiver
}

func newRedisStore(client redis.UniversalClient, prefix string, timeout time.Duration) *redisStore {
	s := &redisStore{
		user: client, private: privateClient(client, timeout, &renewalPool),
		calls:  &combiner{client: privateClient(client, timeout, nil), timeout: timeout},
		prefix: prefix, counts: "0",
	}
	if _, single := client.(*redis.Client); single {
		s.counts = "1" // a cluster's nodes count their own subscribers only
	}
	return s
}

// close closes the private connections, which also ends the calls on them.
func (s *redisStore) close() error {
	if s.closed.Swap(true) || s.private == s.user {
		return nil
	}
	return errors.Join(s.private.Close(), s.calls.client.Close())
}

func (s *redisStore) client() processor {
	if s.closed.Load() {
		return s.user
	}
	return s.calls
}

// lockKey keeps {key} a valid hash tag whatever bytes key holds: a '}' would end the
// tag early, and one at the start would make it empty, which scatters the keys of one
// lock over a cluster.
func (s *redisStore) lockKey(key string) string {
	return s.prefix + ":{" + tagEscaper.Replace(key) + "}"
}

var tagEscaper = strings.NewReplacer(`\`, `\\`, `}`, `\)`)

func (s *redisStore) keys(key string) []string {
	lock := s.lockKey(key)
	return []string{lock, lock + ":queue", lock + ":last", lock + ":seen"}
}

func (s *redisStore) channels() string { return s.prefix + ":grant:" }

func (s *redisStore) Acquire(ctx context.Context, c Claim) (ClaimReply, error) {
	reply, err := acquireScript.run(ctx, s.client(), s.keys(c.Key),
		c.Owner, s.channels(), s.counts, c.TTL.Milliseconds(), c.Metadata, keep(c.TTL),
		digit(c.Queue), c.Place, c.Floor)
	if err != nil {
		return ClaimReply{}, classify(err)
	}
	return parseClaimReply(reply)
}

func (s *redisStore) SetDepth(ctx context.Context, t Tenure) (bool, error) {
	reply, err := depthScript.run(ctx, s.client(), []string{s.lockKey(t.Key)}, t.Owner, t.Depth)
	if err != nil {
		return false, classify(err)
	}
	return parseHeld(reply)
}

// Renew sends the batch as one pipeline, and what Redis did not know by name as a second.
func (s *redisStore) Renew(ctx context.Context, batch []Tenure) []RenewReply {
	cmds := make([]once, len(batch))
	pending := make([]int, len(batch))
	for i := range batch {
		pending[i] = i
	}
	s.renew(ctx, batch, cmds, pending, renewScript.byName)
	pending = pending[:0]
	for i := range cmds {
		if isNoScript(cmds[i].Err()) {
			pending = append(pending, i)
		}
	}
	if len(pending) > 0 {
		s.renew(ctx, batch, cmds, pending, renewScript.inFull)
	}

	replies := make([]RenewReply, len(batch))
	for i, cmd := range cmds {
		reply, err := cmd.Result()
		if err != nil {
			replies[i].Err = classify(err)
			continue
		}
		replies[i].Held, replies[i].Err = parseHeld(reply)
	}
	return replies
}

func (s *redisStore) renew(ctx context.Context, batch []Tenure, cmds []once, which []int,
	command func(context.Context, []string, []any) once,
) {
	pipe := s.private.Pipeline()
	for _, i := range which {
		t := batch[i]
		cmds[i] = command(ctx, []string{s.lockKey(t.Key)},
			[]any{t.Owner, t.Fence, t.TTL.Milliseconds(), t.Depth})
		_ = pipe.Process(ctx, cmds[i]) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
}

func (s *redisStore) Release(ctx context.Context, r Release) (ReleaseReply, error) {
	next := NextClaim{}
	if r.Next != nil {
		next = *r.Next
	}
	reply, err := releaseScript.run(ctx, s.client(), s.keys(r.Key),
		r.Owner, s.channels(), s.counts, r.TTL.Milliseconds(), r.Fence, keep(r.TTL), digit(r.Bury),
		next.Owner, next.Metadata)
	if err != nil {
		return ReleaseReply{}, classify(err)
	}
	return parseReleaseReply(reply)
}

// keep is how long the highest fence is remembered, in milliseconds, if it is not ahead
// of the server's clock.
func keep(ttl time.Duration) int64 { return max(2*ttl, time.Minute).Milliseconds() }

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
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
