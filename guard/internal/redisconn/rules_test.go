package redisconn

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// What a caller leaves while it queues never went out: the caller is told so, and nobody sends it.
func TestACommandThatIsLeftInTheQueueIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCombiner(&pool{}, 0, task.NewGroup(), nil)
		c.active = places
		ctx, leave := context.WithCancel(t.Context())
		var err error
		go func() { _, err = c.do(ctx, nil) }()
		synctest.Wait()
		require.Len(t, c.queue, 1)
		leave()
		synctest.Wait()
		require.ErrorIs(t, err, ErrNotSent)
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, c.queue)
	})
}

type connTo struct {
	net.Conn
	addr   string
	closed atomic.Bool
}

func (c *connTo) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.addr} }
func (c *connTo) Close() error         { c.closed.Store(true); return nil }

// A dial that takes long may lead to who was the primary when it began.
func TestASlowDialToAFormerPrimaryIsRefused(t *testing.T) {
	p := newPrimary(task.NewGroup())
	to := func(addr string) (*connTo, *primaryConn) {
		c := &connTo{addr: addr}
		return c, &primaryConn{&trackedConn{Conn: c, server: &server{}}, p}
	}
	before, first := to("former")
	require.True(t, p.accept(first, 1))
	_, second := to("new")
	require.True(t, p.accept(second, 3))
	assert.True(t, before.closed.Load(), "a connection to the former primary")
	_, slow := to("former")
	assert.False(t, p.accept(slow, 2))
	_, later := to("former")
	assert.True(t, p.accept(later, 4), "it is the primary again")
}
