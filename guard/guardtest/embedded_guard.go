package guardtest

import (
	"testing"

	"github.com/redlatch/redlatch/guard"
)

// NewRedisGuard returns a Guard on an embedded Redis of tb's own. Both are closed when tb ends.
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
