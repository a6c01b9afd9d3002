package redisconn

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// staleConns is what the connections to one server know of each other. Once an answer
// failed to come over one of them, those that lie idle are not used again: they may lead
// to where nobody listens any more, and to find out costs a timeout for each.
type staleConns struct {
	timeouts atomic.Uint64
	primary  *primary // behind Sentinel
}

var _ redis.Hook = (*staleConns)(nil)

func newStaleConns(client redis.UniversalClient, closed <-chan struct{}, background *task.Group) *staleConns {
	s := &staleConns{}
	if c, single := client.(*redis.Client); single && c.Options().Addr == failoverAddr {
		s.primary = newPrimary(background)
		s.primary.dial = s.DialHook(bounds{clock.Forever, closed}.dialer(c.Options().Dialer))
	}
	return s
}

// DialHook implements redis.Hook.
func (s *staleConns) DialHook(next redis.DialHook) redis.DialHook {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		timeouts := s.timeouts.Load()
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if _, failed := conn.(failedConn); failed {
			return conn, nil
		}
		c := &trackedConn{Conn: conn, stale: s}
		c.heard.Store(timeouts)
		return c, nil
	}
	if s.primary != nil {
		dial = s.primary.dialHook(dial)
	}
	return dial
}

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
