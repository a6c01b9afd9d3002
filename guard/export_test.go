package guard

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// What a lock that nobody else wants sends to Redis.
var (
	AcquireSource = acquireScript.source
	ReleaseSource = releaseScript.source
)

// RedisStore gives tests the Store that New makes.
func RedisStore(tb testing.TB, client redis.UniversalClient, prefix string) guardstore.Store {
	s := newRedisStore(client, redisConfig{prefix: prefix, timeout: time.Second, renewals: renewSenders})
	tb.Cleanup(func() { _ = s.close() })
	return s
}

// Remembered is how many keys and claims a Guard knows of at this moment.
func Remembered(g *Guard) int {
	g.contenders.mu.Lock()
	defer g.contenders.mu.Unlock()
	g.grants.mu.Lock()
	defer g.grants.mu.Unlock()
	return len(g.contenders.m) + len(g.grants.waiting)
}

// QuorumStore gives tests the Store that NewQuorum makes.
func QuorumStore(tb testing.TB, clients []redis.UniversalClient, prefix string) guardstore.Store {
	c, err := newConfig([]Option{Prefix(prefix)})
	if err != nil {
		tb.Fatal(err)
	}
	s := newQuorumStore(clients, quorumConfig{c.prefix, c.patience(), renewSenders, false})
	tb.Cleanup(func() { _ = s.close() })
	return s
}

// InLine is how many callers stand in line in a Guard at this moment.
func InLine(g *Guard) int {
	g.contenders.mu.Lock()
	defer g.contenders.mu.Unlock()
	n := 0
	for _, c := range g.contenders.m {
		n += c.line.Len()
	}
	return n
}

// Scripts are the sources of what is sent to Redis, by name.
func Scripts() map[string]string {
	return map[string]string{
		"acquire": acquireScript.source, "release": releaseScript.source,
		"renew": renewScript.source, "depth": depthScript.source,
		"acquire_many": acquireManyScript.source, "release_many": releaseManyScript.source,
		"wait": waitScript.source, "wake": wakeScript.source, "undo": undoScript.source, "raise": raiseScript.source,
	}
}

// Together sends what a Guard under load sends in one write, to one Redis, and returns when
// all of it is answered.
func Together(ctx context.Context, s guardstore.Store, claims []guardstore.Claim, releases []guardstore.Release) (claimed []guardstore.ClaimReply, released []guardstore.ReleaseReply, errs []error) {
	store := s.(*redisStore)
	claimed, released = make([]guardstore.ClaimReply, len(claims)), make([]guardstore.ReleaseReply, len(releases))
	errs = make([]error, len(claims)+len(releases))
	var parcels []parcel
	var answered sync.WaitGroup
	answered.Add(len(errs))
	for i, c := range claims {
		r := &acquiring{c, store, store.keys(c.Key), c.TTL.Milliseconds(), func(r guardstore.ClaimReply, err error) {
			claimed[i], errs[i] = r, err
			answered.Done()
		}}
		parcels = append(parcels, parcel{ctx: ctx, request: r})
	}
	for i, c := range releases {
		r := &releasing{c, store, store.keys(c.Key), c.TTL.Milliseconds(), func(r guardstore.ReleaseReply, err error) {
			released[i], errs[len(claims)+i] = r, err
			answered.Done()
		}}
		parcels = append(parcels, parcel{ctx: ctx, request: r})
	}
	store.conn.(*connClient).calls.mu.Lock()
	store.conn.(*connClient).calls.flying++
	store.conn.(*connClient).calls.queue = append(store.conn.(*connClient).calls.queue, parcels...)
	store.conn.(*connClient).calls.mu.Unlock()
	store.conn.(*connClient).calls.fly(nil)
	answered.Wait()
	return claimed, released, errs
}
