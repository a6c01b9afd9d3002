package guard

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

// suspicion is what the connections to one server know of each other. Once an answer
// failed to come over one of them, those that lie idle are not used again: they may lead
// to where nobody listens any more, and to find out costs a timeout for each.
type suspicion struct {
	timeouts atomic.Uint64
	primary  *primary // behind Sentinel
}

var _ redis.Hook = (*suspicion)(nil)

func newSuspicion(client redis.UniversalClient, closed <-chan struct{}, background *task.Group) *suspicion {
	s := &suspicion{}
	if c, single := client.(*redis.Client); single && c.Options().Addr == failoverAddr {
		s.primary = newPrimary(background)
		s.primary.dial = s.DialHook(bounds{clock.Forever, closed}.dialer(c.Options().Dialer))
	}
	return s
}

// DialHook implements redis.Hook.
func (s *suspicion) DialHook(next redis.DialHook) redis.DialHook {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		timeouts := s.timeouts.Load()
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if _, failed := conn.(stillborn); failed {
			return conn, nil
		}
		c := &suspectedConn{Conn: conn, common: s}
		c.heard.Store(timeouts)
		return c, nil
	}
	if s.primary != nil {
		dial = s.primary.dialHook(dial)
	}
	return dial
}

// ProcessHook implements redis.Hook.
func (s *suspicion) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	if s.primary == nil {
		return next
	}
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.primary.confirm(ctx)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (s *suspicion) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	if s.primary == nil {
		return next
	}
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.primary.confirm(ctx)
		return next(ctx, cmds)
	}
}

var errSuspected = errors.New("another connection timed out")

// suspectedConn is a connection that is not to be used after another one timed out,
// unless it was heard of since.
type suspectedConn struct {
	net.Conn
	common *suspicion
	heard  atomic.Uint64 // how many timeouts there had been by then
}

// Read implements net.Conn.
func (c *suspectedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(c.common.timeouts.Load())
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		c.common.timeouts.Add(1)
	}
	return n, err
}

// SyscallConn is what go-redis asks for when it is about to use an idle connection. One
// for which there is an error is closed.
func (c *suspectedConn) SyscallConn() (syscall.RawConn, error) {
	if c.heard.Load() != c.common.timeouts.Load() {
		return nil, errSuspected
	}
	if inner, ok := c.Conn.(syscall.Conn); ok {
		return inner.SyscallConn()
	}
	return opaqueConn{}, nil
}

// opaqueConn is a connection, such as one of TLS, that go-redis does not look into.
type opaqueConn struct{}

func (opaqueConn) Control(func(uintptr)) error    { return nil }
func (opaqueConn) Read(func(uintptr) bool) error  { return nil }
func (opaqueConn) Write(func(uintptr) bool) error { return nil }
