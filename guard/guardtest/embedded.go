package guardtest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// Server is a Redis inside this process, on a loopback port of its own. Its keys expire
// as those of a real one do, in real time. It serves tests and demonstrations: it keeps
// nothing on disk, and its speed falls with the number of keys.
type Server struct {
	redis *miniredis.Miniredis
	addr  string

	mu      sync.Mutex // protects what follows
	clients []*redis.Client
	closed  bool
}

// Start starts a Server for a program. A test rather calls NewRedis or NewRedisGuard. It is an error
// inside of a testing/synctest bubble, where no time passes while a connection is waited for.
func Start() (*Server, error) {
	if clock.Now().InBubble() {
		return nil, errors.New("guardtest: an embedded Redis does not work inside of a testing/synctest bubble: " +
			"use NewMemoryGuard, or start it outside and make the Guard there")
	}
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("guardtest: start embedded Redis: %w", err)
	}
	m.Server().SetPreHook(newClock(m).tick)
	return &Server{redis: m, addr: m.Addr()}, nil
}

// Addr is the server's "host:port". It stays the same after Close.
func (s *Server) Addr() string { return s.addr }

// Client returns a new client of the server, with go-redis's default options. Close
// closes it too.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.addr})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	return c
}

// Close closes the clients that Client made and stops the server. It returns when no
// goroutine of the server is left. It is idempotent.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, c := range s.clients {
		if err := c.Close(); !errors.Is(err, redis.ErrClosed) {
			errs = append(errs, err)
		}
	}
	s.redis.Close()
	return errors.Join(errs...)
}

// NewRedis returns a client of an embedded Redis of tb's own. Both are closed when tb
// ends.
func NewRedis(tb testing.TB) *redis.Client {
	tb.Helper()
	s, err := Start()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("guardtest: close embedded Redis: %v", err)
		}
	})
	return s.Client()
}
