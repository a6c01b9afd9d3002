package embedded

import (
	"errors"
	"fmt"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// Server is a Redis in this process, on a loopback port of its own. Keys expire in real time, as in
// a Redis server. It writes nothing to disk, and its speed falls with the number of keys. All
// methods may be called by several goroutines.
type Server struct {
	redis *miniredis.Miniredis
	addr  string

	mu      sync.Mutex // protects what follows
	clients []*redis.Client
	closed  bool
}

// Start starts a Server. In a test, use guardtest.NewRedis or guardtest.NewRedisGuard. Start returns
// an error in a testing/synctest bubble, where no time passes while a goroutine waits for a connection.
func Start() (*Server, error) {
	if clock.Now().InBubble() {
		return nil, errors.New("embedded: Redis does not work in a testing/synctest bubble: " +
			"use guardtest.NewMemoryGuard, or start it outside and make the Guard there")
	}
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("embedded: start Redis: %w", err)
	}
	m.Server().SetPreHook(newClock(m).tick)
	return &Server{redis: m, addr: m.Addr()}, nil
}

// Addr returns the server's "host:port". It stays the same after Close.
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
