package redisconn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// ledger is what the locks guard: a page per key. It counts writers that met on a page, and those
// with an old fence.
type ledger struct {
	mu           sync.Mutex
	pages        map[string]*page
	met, refused int
}

type page struct {
	inside, writes int
	last           uint64
}

func newLedger() *ledger { return &ledger{pages: make(map[string]*page)} }

// write is work under the lock of a key.
func (l *ledger) write(ctx context.Context, key string) error {
	lease, held := guard.Held(ctx, guard.Key(key))
	if !held {
		return fmt.Errorf("page %q is written without its lock", key)
	}
	l.mu.Lock()
	p := l.pages[key]
	if p == nil {
		p = new(page)
		l.pages[key] = p
	}
	if p.inside++; p.inside > 1 {
		l.met++
	}
	if lease.Fence() <= p.last {
		l.refused++
	} else {
		p.last = lease.Fence()
		p.writes++
	}
	l.mu.Unlock()
	time.Sleep(time.Millisecond) // for another to come in
	l.mu.Lock()
	defer l.mu.Unlock()
	p.inside--
	return nil
}

// check says whether writers never met, and came in the order of their fences.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	assert.Zero(t, l.met, "writers that met on a page")
	assert.Zero(t, l.refused, "writers with an old fence")
}

// writes are those that were accepted on a page.
func (l *ledger) writes(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pages[key]; p != nil {
		return p.writes
	}
	return 0
}

// keysOf makes names of keys in different slots.
func keysOf(name string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s:%d", name, i)
	}
	return keys
}

// awaitQueue waits until so many claims wait for a key.
func awaitQueue(t *testing.T, rdb redis.Cmdable, key string, n int64) {
	t.Helper()
	testenv.Eventually(t, func() bool { return rdb.ZCard(t.Context(), testenv.LockOf(key)+":queue").Val() == n }, "not queued")
}

// load is callers of several instances that want the same few keys all the time.
type load struct {
	*ledger
	keys    []string
	longest atomic.Int64 // call
	lost    atomic.Int64 // leases
	cancel  context.CancelFunc
	callers sync.WaitGroup
}

func startLoad(t *testing.T, instances int, client func() redis.UniversalClient, ttl time.Duration) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{ledger: newLedger(), keys: keysOf("page", 6), cancel: cancel}
	for range instances {
		g := testenv.GuardOn(t, client(), guard.StoreTimeout(10*time.Second), guard.TTL(ttl))
		for _, key := range l.keys {
			for range 4 {
				l.callers.Go(func() {
					for ctx.Err() == nil {
						l.call(t, ctx, g, key)
					}
				})
			}
		}
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) call(t *testing.T, ctx context.Context, g *guard.Guard, key string) {
	start := time.Now()
	err := g.WithLock(ctx, guard.Key(key), func(ctx context.Context) error { return l.write(ctx, key) })
	for d := int64(time.Since(start)); ; {
		if longest := l.longest.Load(); d <= longest || l.longest.CompareAndSwap(longest, d) {
			break
		}
	}
	if errors.Is(err, guard.ErrLost) {
		l.lost.Add(1)
	} else if ctx.Err() == nil {
		assert.NoError(t, err)
	}
}

// flows waits until every key was written often from now on.
func (l *load) flows(t *testing.T) {
	t.Helper()
	for _, key := range l.keys {
		before := l.writes(key)
		require.Eventually(t, func() bool { return l.writes(key) >= before+20 }, 30*time.Second, time.Millisecond)
	}
}

func (l *load) stop() {
	l.cancel()
	l.callers.Wait()
}
