package testenv

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Nothing is work that does nothing.
func Nothing(context.Context) error { return nil }

// Contend has a caller in each of the Guards visit what key guards, some times. They must
// be done before the ttl of an abandoned lock frees it.
func Contend(t *testing.T, key string, times int, guards ...*guard.Guard) {
	t.Helper()
	book := &Book{Tb: t, Inside: make(map[string]string), Fences: make(map[string]uint64)}
	all := InBackground(func() bool {
		var callers sync.WaitGroup
		for i, g := range guards {
			callers.Go(func() {
				for range times {
					assert.NoError(t, g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
						defer book.Enter(ctx, key, fmt.Sprint("caller ", i))()
						time.Sleep(time.Millisecond)
						return nil
					}, guard.TTL(2*Patience)))
				}
			})
		}
		callers.Wait()
		return true
	})
	all(t)
	assert.Len(t, book.Entered(), times*len(guards))
}

// Order is the key that most tests lock.
var Order = guard.Key("order:42")

// KeptContext is a context at which the end of a context below it can be kept, and with it the watchdog that ends it.
type KeptContext struct {
	context.Context
	kept atomic.Pointer[chan struct{}]
}

// Keep keeps it from now on, until goOn is called.
func (c *KeptContext) Keep() (goOn func()) {
	kept := make(chan struct{})
	c.kept.Store(&kept)
	return func() { close(kept) }
}

// Done implements context.Context.
func (c *KeptContext) Done() <-chan struct{} {
	if kept := c.kept.Load(); kept != nil {
		<-*kept
	}
	return c.Context.Done()
}

// Replicated is a Redis with a replica that is in step.
func Replicated(t *testing.T) (primary, replica *redistest.Server) {
	t.Helper()
	primary, replica = redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.Client(t).ReplicaOf(t.Context(), host, port).Err())
	rdb := primary.Client(t)
	Eventually(t, func() bool {
		conn := rdb.Conn()
		defer func() { _ = conn.Close() }()
		conn.Set(t.Context(), "probe", "x", time.Second)
		return conn.Wait(t.Context(), 1, 100*time.Millisecond).Val() == 1
	}, "the replica is not in step")
	return primary, replica
}
