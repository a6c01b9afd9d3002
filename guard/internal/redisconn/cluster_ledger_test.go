package redisconn_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// clusterGuard makes a Guard of its own instance on a client.
func clusterGuard(t *testing.T, client redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// clusterLedger is what the locks guard: a page per key, which refuses writers with a
// fence below the highest that it saw. It counts pairs of writers that met on a page.
type clusterLedger struct {
	mu    sync.Mutex
	pages map[string]*clusterPage
}

type clusterPage struct {
	inside, met, refused int
	fences               []uint64 // of the writes, in order
}

func newClusterLedger() *clusterLedger { return &clusterLedger{pages: make(map[string]*clusterPage)} }

// write is work under the lock of a key.
func (l *clusterLedger) write(ctx context.Context, key string) error {
	lease, held := guard.Held(ctx, key)
	if !held {
		return fmt.Errorf("page %q is written without its lock", key)
	}
	l.mu.Lock()
	p := l.pages[key]
	if p == nil {
		p = new(clusterPage)
		l.pages[key] = p
	}
	if p.inside++; p.inside > 1 {
		p.met++
	}
	if n := len(p.fences); n > 0 && lease.Fence() <= p.fences[n-1] {
		p.refused++
	} else {
		p.fences = append(p.fences, lease.Fence())
	}
	l.mu.Unlock()
	time.Sleep(time.Millisecond) // for another to come in
	l.mu.Lock()
	defer l.mu.Unlock()
	p.inside--
	return nil
}

// conflicts is how many writers met on a page, or came with an old fence.
func (l *clusterLedger) conflicts() (met, refused int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pages {
		met, refused = met+p.met, refused+p.refused
	}
	return met, refused
}

// check says whether writers never met, and came in the order of their fences.
func (l *clusterLedger) check(t *testing.T) {
	t.Helper()
	met, refused := l.conflicts()
	assert.Zero(t, met, "writers that met on a page")
	assert.Zero(t, refused, "writers with an old fence")
}

// writes is how many were accepted on a page, or on all.
func (l *clusterLedger) writes(keys ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, p := range l.pages {
		for _, wanted := range keys {
			if key == wanted {
				n += len(p.fences)
			}
		}
		if len(keys) == 0 {
			n += len(p.fences)
		}
	}
	return n
}

// clusterKeys makes names of keys, which spread over the slots.
func clusterKeys(name string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s:%d", name, i)
	}
	return keys
}

// clusterLock is where a key's lock is in Redis.
func clusterLock(key string) string { return "guard:{" + key + "}" }
