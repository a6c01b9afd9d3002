package guardtest

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
)

// NewRedis starts a Redis in the process of the test and returns a client. It closes both when tb
// ends.
func NewRedis(tb testing.TB) *redis.Client {
	tb.Helper()
	s, err := embedded.Start()
	if err != nil {
		tb.Fatalf("guardtest: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("guardtest: close Redis: %v", err)
		}
	})
	return s.Client()
}

// NewRedisGuard returns a Guard on a Redis in the process of the test. It closes both when tb ends.
func NewRedisGuard(tb testing.TB, opts ...guard.Option) *guard.Guard {
	tb.Helper()
	g, err := guard.New(NewRedis(tb), opts...)
	if err != nil {
		tb.Fatalf("guardtest: %v", err)
	}
	tb.Cleanup(func() {
		if err := g.Close(); err != nil {
			tb.Errorf("guardtest: close Guard: %v", err)
		}
	})
	return g
}
