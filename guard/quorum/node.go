package quorum

import (
	"context"
	"embed"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

//go:embed lua
var lua embed.FS

var (
	releaseScript    = redisstore.Load(lua, "release_and_notify")
	peekScript       = redisstore.Load(lua, "peek")
	rollbackScript   = redisstore.Load(lua, "rollback")
	raiseFenceScript = redisstore.Load(lua, "raise_fence")
)

// server is a node, but in tests.
type server interface {
	guardstore.Store
	guardstore.Announcer

	// Peek looks at the lock, and has a claim notified when a hold ends. It is busy, with nothing
	// remaining if it is free.
	Peek(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error)
	// RaiseFence has later fences be above one. It says whether the claim holds the lock.
	RaiseFence(ctx context.Context, c guardstore.Claim, fence uint64) (held bool, err error)
	// Rollback takes back what a round got, or may yet get: then it needs a tombstone. With notify,
	// the first claim in the queue is notified.
	Rollback(ctx context.Context, c guardstore.Claim, tombstone, notify bool) error
	// ID is the same for all clients that lead to one server.
	ID(ctx context.Context) (string, error)
	Close() error
}

// node is one server: a store, and the scripts that only a quorum needs.
type node struct {
	*redisstore.Store
	prefix string
}

func newNode(client redis.UniversalClient, prefix string) node {
	c := redisstore.Config{Prefix: prefix, AttemptTimeout: answerTimeout}
	return node{redisstore.New(client, c), prefix}
}

// key is one of the keys of a lock.
func (n node) key(lock, which string) string { return redisstore.LockKey(n.prefix, lock) + which }

// Release implements guardstore.Store, and notifies the waiting claims when a hold ended.
func (n node) Release(ctx context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	return n.ReleaseBy(ctx, releaseScript, r, n.key(r.Key, ":wake"))
}

// Peek implements server.
func (n node) Peek(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	keys := []string{n.key(c.Key, ""), n.key(c.Key, ":ended"), n.key(c.Key, ":wake")}
	reply, err := n.Do(ctx, peekScript.With(keys, c.Owner, strconv.FormatUint(c.Ticket, 10)))
	if err != nil {
		return guardstore.ClaimReply{}, err
	}
	return redisstore.ParseClaim(reply)
}

// RaiseFence implements server.
func (n node) RaiseFence(ctx context.Context, c guardstore.Claim, fence uint64) (held bool, err error) {
	keys := []string{n.key(c.Key, ""), n.key(c.Key, ":ended")}
	reply, err := n.Do(ctx, raiseFenceScript.With(keys, c.Owner, strconv.FormatUint(fence, 10)))
	if err != nil {
		return false, err
	}
	return redisstore.ParseHeld(reply)
}

// Rollback implements server.
func (n node) Rollback(ctx context.Context, c guardstore.Claim, tombstone, notify bool) error {
	keys := []string{n.key(c.Key, ""), n.key(c.Key, ":ended"), n.key(c.Key, ":wake")}
	mark, channels := "0", ""
	if tombstone {
		mark = "1"
	}
	if notify {
		channels = n.Channels()
	}
	_, err := n.Do(ctx, rollbackScript.With(keys, c.Owner, mark, channels))
	return err
}

// ID implements server.
func (n node) ID(ctx context.Context) (string, error) {
	reply, err := n.Call(ctx, "info", "server")
	info, _ := reply.(string)
	_, id, _ := strings.Cut(info, "run_id:")
	id, _, _ = strings.Cut(id, "\r\n")
	return id, err
}
