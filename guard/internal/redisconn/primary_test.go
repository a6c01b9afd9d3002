package redisconn

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type connTo struct {
	net.Conn
	addr   string
	closed atomic.Bool
}

func (c *connTo) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.addr} }
func (c *connTo) Close() error         { c.closed.Store(true); return nil }

// A dial that leads to another server than before closes the connections to the former one.
func TestPrimary_ANewPrimaryClosesConnectionsToTheFormer(t *testing.T) {
	p := &primary{conns: make(map[*primaryConn]struct{})}
	former, again, next := &connTo{addr: "former"}, &connTo{addr: "former"}, &connTo{addr: "next"}
	p.accept(former)
	assert.Equal(t, "former", p.server())
	require.NoError(t, p.accept(again).Close())
	p.accept(next)
	assert.True(t, former.closed.Load())
	assert.False(t, next.closed.Load())
	assert.Equal(t, "next", p.server())
	assert.Len(t, p.conns, 1)
}

// The error of a dial to the primary is the caller's.
func TestPrimary_ADialThatFails(t *testing.T) {
	fails := func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }
	p := &primary{conns: make(map[*primaryConn]struct{})}
	_, err := p.dialer(fails)(t.Context(), "tcp", failoverAddr)
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, failoverAddr, p.server())
}
