package redisconn

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// server is what all connections to one server share. Once an answer failed to come over one
// of them, those that lie idle are not used again: they may lead to where nobody listens any
// more, and to find out costs a timeout for each.
type server struct {
	dials    *dials
	timeouts atomic.Uint64
	primary  *primary // with Sentinel; may be nil
}

func newServer() *server { return &server{dials: newDials()} }

// serverOf is what a client leads to. With Sentinel, that changes.
func serverOf(client redis.UniversalClient, closed <-chan struct{}, background *task.Group) *server {
	s := newServer()
	if c, single := client.(*redis.Client); single && c.Options().Addr == failoverAddr {
		s.primary = newPrimary(background)
		s.primary.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return bounded(ctx, bounds{clock.Forever, closed}, "dial "+addr, func(ctx context.Context) (net.Conn, error) {
				return s.tracked(c.Options().Dialer)(ctx, network, addr)
			}, func(conn net.Conn) { _ = conn.Close() })
		}
	}
	return s
}

// watch has the commands of a client check which server is the primary, with Sentinel.
func (s *server) watch(client *redis.Client) {
	if s.primary != nil {
		client.AddHook(s.primary)
	}
}

// dialer dials for a client of the server, see dials.
func (s *server) dialer(b bounds, most time.Duration, dial dialFunc) dialFunc {
	return s.dials.dialer(b, most, s.tracked(dial))
}

// tracked has what comes of a dial known as a connection to the server.
func (s *server) tracked(dial dialFunc) dialFunc {
	tracked := func(ctx context.Context, network, addr string) (net.Conn, error) {
		timeouts := s.timeouts.Load()
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, &connError{addr, err}
		}
		c := &trackedConn{Conn: conn, server: s, addr: addr}
		c.timeoutsSeen.Store(timeouts)
		return c, nil
	}
	if s.primary != nil {
		return s.primary.dialer(tracked)
	}
	return tracked
}

var errStale = errors.New("another connection timed out")

// trackedConn is a connection that is not to be used after another one timed out,
// unless something was read from it since.
type trackedConn struct {
	net.Conn
	server       *server
	addr         string
	timeoutsSeen atomic.Uint64 // how many timeouts there had been by then
}

// Read implements net.Conn.
func (c *trackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.timeoutsSeen.Store(c.server.timeouts.Load())
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		c.server.timeouts.Add(1)
	}
	if err != nil {
		err = &connError{c.addr, err}
	}
	return n, err
}

// SyscallConn is what go-redis asks for when it is about to use an idle connection. One
// for which there is an error is closed.
func (c *trackedConn) SyscallConn() (syscall.RawConn, error) {
	if c.timeoutsSeen.Load() != c.server.timeouts.Load() {
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

// connError names the server of a connection that failed. It has no Unwrap: go-redis unwraps an error of
// the handshake once, and the address would go with that.
type connError struct {
	addr string
	err  error
}

func (e *connError) Error() string {
	if text := e.err.Error(); strings.Contains(text, e.addr) {
		return text
	}
	return e.addr + ": " + e.err.Error()
}

// Is implements what errors.Is asks for.
func (e *connError) Is(target error) bool { return errors.Is(e.err, target) }

// As implements what errors.As asks for.
func (e *connError) As(target any) bool { return errors.As(e.err, target) }
