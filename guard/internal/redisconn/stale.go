package redisconn

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// staleConns is what the connections to one server know of each other. Once an answer
// failed to come over one of them, those that lie idle are not used again: they may lead
// to where nobody listens any more, and to find out costs a timeout for each.
type staleConns struct {
	dials    *dials
	timeouts atomic.Uint64
	primary  *primary // behind Sentinel
}

var _ redis.Hook = (*staleConns)(nil)

func newStaleConns() *staleConns { return &staleConns{dials: newDials()} }

// newStaleConnsOf also asks Sentinel, if the client is behind one.
func newStaleConnsOf(client redis.UniversalClient, closed <-chan struct{}, background *task.Group) *staleConns {
	s := newStaleConns()
	if c, single := client.(*redis.Client); single && c.Options().Addr == failoverAddr {
		s.primary = newPrimary(background)
		s.primary.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return bounded(ctx, bounds{clock.Forever, closed}, "dial "+addr, func(ctx context.Context) (net.Conn, error) {
				return s.primary.dialer(s.tracked(c.Options().Dialer))(ctx, network, addr)
			}, func(conn net.Conn) { _ = conn.Close() })
		}
	}
	return s
}

// dialer dials for a client of the server, see dials.
func (s *staleConns) dialer(b bounds, most time.Duration, dial dialFunc) dialFunc {
	dial = s.tracked(dial)
	if s.primary != nil {
		dial = s.primary.dialer(dial)
	}
	return s.dials.dialer(b, most, dial)
}

func (s *staleConns) tracked(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		timeouts := s.timeouts.Load()
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &trackedConn{Conn: conn, stale: s}
		c.heard.Store(timeouts)
		return c, nil
	}
}

// DialHook implements redis.Hook.
func (*staleConns) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (s *staleConns) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	if s.primary == nil {
		return next
	}
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.primary.check(ctx)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (s *staleConns) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	if s.primary == nil {
		return next
	}
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.primary.check(ctx)
		return next(ctx, cmds)
	}
}

var errStale = errors.New("another connection timed out")

// trackedConn is a connection that is not to be used after another one timed out,
// unless it was heard of since.
type trackedConn struct {
	net.Conn
	stale *staleConns
	heard atomic.Uint64 // how many timeouts there had been by then
}

// Read implements net.Conn.
func (c *trackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(c.stale.timeouts.Load())
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		c.stale.timeouts.Add(1)
	}
	return n, err
}

// SyscallConn is what go-redis asks for when it is about to use an idle connection. One
// for which there is an error is closed.
func (c *trackedConn) SyscallConn() (syscall.RawConn, error) {
	if c.heard.Load() != c.stale.timeouts.Load() {
		return nil, errStale
	}
	if inner, ok := c.Conn.(syscall.Conn); ok {
		return inner.SyscallConn()
	}
	return uncheckedConn{}, nil
}

// uncheckedConn is a connection, such as one of TLS, that go-redis does not look into.
type uncheckedConn struct{}

func (uncheckedConn) Control(func(uintptr)) error    { return nil }
func (uncheckedConn) Read(func(uintptr) bool) error  { return nil }
func (uncheckedConn) Write(func(uintptr) bool) error { return nil }
