package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// What follows is what only a quorum asks of one of its servers.

// View is how one server sees the lock.
type View struct {
	Finished  bool
	Remaining time.Duration // 0: free
	Holder    string
	Ticket    uint64
	Ahead     int
	Done      bool // nobody holds it: its MinHold is not over
}

// Peek looks at the lock on one server, and puts a claim in its list of those to notify.
func (s *Store) Peek(ctx context.Context, c guardstore.Claim) (View, error) {
	keys := s.keys(c.Key)
	reply, err := s.conn.Do(ctx, peekScript.With([]string{keys[0], keys[1], s.waitersKey(c.Key)}, &c.Owner, &c.Ticket))
	if err != nil {
		return View{}, classify(err)
	}
	return parseView(reply)
}

func (s *Store) waitersKey(key string) string { return s.lockKey(key) + ":wake" }

// Notify takes a claim out of one server's list, and tells the first there to ask.
func (s *Store) Notify(ctx context.Context, key, owner string) error {
	if _, err := s.conn.Do(ctx, notifyScript.With([]string{s.waitersKey(key)}, &owner, &s.channels)); err != nil {
		return classify(err)
	}
	return nil
}

// Leave takes a claim out of one server's list.
func (s *Store) Leave(ctx context.Context, key, owner string) {
	_, _ = s.conn.Call(ctx, "zrem", s.waitersKey(key), owner)
}

// RaiseFence makes sure that one server's later fences are above one.
func (s *Store) RaiseFence(ctx context.Context, c guardstore.Claim, fence uint64) (bool, error) {
	keys := s.keys(c.Key)
	reply, err := s.conn.Do(ctx, raiseFenceScript.With([]string{keys[0], keys[2]}, &c.Owner, &fence, c.TTL.Milliseconds()))
	if err != nil {
		return false, classify(err)
	}
	return parseHeld(reply)
}

// Rollback takes back, on one server, what an owner got, or may yet get: then a tombstone sees
// to it.
func (s *Store) Rollback(ctx context.Context, c guardstore.Claim, tombstone bool) error {
	keys := s.keys(c.Key)
	if _, err := s.conn.Do(ctx, rollbackScript.With(keys[:2], &c.Owner, digit(tombstone))); err != nil {
		return classify(err)
	}
	return nil
}

// ServerID tells which server it is: the same for all clients that lead to it.
func (s *Store) ServerID(ctx context.Context) (string, error) {
	reply, err := s.conn.Call(ctx, "info", "server")
	if err != nil {
		return "", err
	}
	info, _ := reply.(string)
	_, id, _ := strings.Cut(info, "run_id:")
	id, _, _ = strings.Cut(id, "\r\n")
	return id, nil
}
