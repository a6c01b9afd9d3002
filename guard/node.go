package guard

import (
	"context"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// What follows is what only a quorum asks of one of its servers.

// look is how one server sees the lock.
type look struct {
	withdrawn bool
	remaining time.Duration // 0: free
	holder    string
	place     uint64
	inFront   int
}

// wait looks at the lock on one server, and puts a claim in its list of those to wake.
func (s *redisStore) wait(ctx context.Context, c guardstore.Claim) (look, error) {
	keys := s.keys(c.Key)
	reply, err := s.conn.do(ctx, waitScript.with([]string{keys[0], keys[1], s.wakeKey(c.Key)}, &c.Owner, &c.Ticket))
	if err != nil {
		return look{}, classify(err)
	}
	return parseLook(reply)
}

func (s *redisStore) wakeKey(key string) string { return s.lockKey(key) + ":wake" }

// woken is what became of a next claim.
type woken struct {
	first bool
	place uint64
}

// wake tells the first in one server's list to ask. next, if there is one, is put
// behind the others before.
func (s *redisStore) wake(ctx context.Context, key, owner, next string) (woken, error) {
	reply, err := s.conn.do(ctx, wakeScript.with([]string{s.wakeKey(key)}, &owner, &s.channels, &next))
	if err != nil {
		return woken{}, classify(err)
	}
	return parseWoken(reply, next != "")
}

// leave takes a claim out of one server's list.
func (s *redisStore) leave(ctx context.Context, key, owner string) {
	_, _ = s.conn.call(ctx, "zrem", s.wakeKey(key), owner)
}

// raise makes sure that one server's later fences are above one.
func (s *redisStore) raise(ctx context.Context, c guardstore.Claim, fence uint64) (bool, error) {
	keys := s.keys(c.Key)
	reply, err := s.conn.do(ctx, raiseScript.with([]string{keys[0], keys[2]}, &c.Owner, &fence, c.TTL.Milliseconds()))
	if err != nil {
		return false, classify(err)
	}
	return parseHeld(reply)
}

// revoke takes back, on one server, what an owner got, or may yet get: then a tombstone sees
// to it.
func (s *redisStore) revoke(ctx context.Context, c guardstore.Claim, tombstone bool) error {
	keys := s.keys(c.Key)
	_, err := s.conn.do(ctx, undoScript.with(keys[:2], &c.Owner, digit(tombstone)))
	return err
}

// serverID tells which server it is: the same for all clients that lead to it.
func (s *redisStore) serverID(ctx context.Context) (string, error) {
	reply, err := s.conn.call(ctx, "info", "server")
	if err != nil {
		return "", err
	}
	info, _ := reply.(string)
	_, id, _ := strings.Cut(info, "run_id:")
	id, _, _ = strings.Cut(id, "\r\n")
	return id, nil
}
