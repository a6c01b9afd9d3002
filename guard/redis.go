package guard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisStore is the Store of one Redis: standalone, Sentinel or Cluster. First attempts
// go over the user's client, with its hooks and limits; renewals and whatever went
// unanswered go over connections of our own, which user code cannot exhaust.
type redisStore struct {
	client  redis.UniversalClient
	private redis.UniversalClient
	prefix  string
}

func newRedisStore(client redis.UniversalClient, prefix string, timeout time.Duration) *redisStore {
	return &redisStore{client: client, private: privateClient(client, timeout), prefix: prefix}
}

// close closes the private connections, which also ends the calls on them.
func (s *redisStore) close() error {
	if s.private == s.client {
		return nil
	}
	return s.private.Close()
}

func (s *redisStore) route(again bool) redis.UniversalClient {
	if again {
		return s.private
	}
	return s.client
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
	return []string{lock, lock + ":queue", lock + ":last"}
}

func (s *redisStore) Acquire(ctx context.Context, c Claim) (ClaimReply, error) {
	reply, err := acquireScript.run(ctx, s.route(c.Again), s.keys(c.Key),
		c.Owner, c.TTL.Milliseconds(), c.Metadata)
	if err != nil {
		return ClaimReply{}, classify(err)
	}
	return parseClaimReply(reply)
}

func (s *redisStore) SetDepth(ctx context.Context, t Tenure) (bool, error) {
	reply, err := depthScript.run(ctx, s.route(t.Again), []string{s.lockKey(t.Key)}, t.Owner, t.Depth)
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
	bury := 0
	if r.Bury {
		bury = 1
	}
	reply, err := releaseScript.run(ctx, s.route(r.Again), s.keys(r.Key),
		r.Owner, r.Fence, r.TTL.Milliseconds(), bury)
	if err != nil {
		return 0, classify(err)
	}
	switch reply {
	case int64(1):
		return ReleaseDone, nil
	case int64(2):
		return ReleaseAlready, nil
	case int64(0):
		return ReleaseLost, nil
	}
	return 0, unexpected(reply)
}

func parseClaimReply(reply any) (ClaimReply, error) {
	list, ok := reply.([]any)
	if !ok || len(list) == 0 {
		return ClaimReply{}, unexpected(reply)
	}
	switch {
	case list[0] == int64(-1):
		return ClaimReply{Status: ClaimWithdrawn}, nil
	case list[0] == int64(1) && len(list) == 2:
		text, _ := list[1].(string)
		fence, err := strconv.ParseUint(text, 10, 53)
		if err != nil {
			return ClaimReply{}, unexpected(reply)
		}
		return ClaimReply{Status: ClaimHeld, Fence: fence}, nil
	case list[0] == int64(0) && len(list) == 3:
		remaining, ok := list[1].(int64)
		holder, ok2 := list[2].(string)
		if !ok || !ok2 {
			return ClaimReply{}, unexpected(reply)
		}
		return ClaimReply{
			Status:    ClaimBusy,
			Remaining: time.Duration(remaining) * time.Millisecond,
			Holder:    holder,
		}, nil
	}
	return ClaimReply{}, unexpected(reply)
}

func parseHeld(reply any) (bool, error) {
	switch reply {
	case int64(1):
		return true, nil
	case int64(0):
		return false, nil
	}
	return false, unexpected(reply)
}

func unexpected(reply any) error { return fmt.Errorf("unexpected reply of type %T", reply) }

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
