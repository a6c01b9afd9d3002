package redisstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// All locks share the one thread of a Redis, and every command costs it more than a
// microsecond.
func TestCost_UncontendedCycleIsLean(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	g := s.Guard()
	s.Visit(g, "open the subscription")
	for _, state := range []string{"new", "used before"} {
		s.ResetCommands()
		l := s.Acquire(g, "k")
		acquire := s.CalledByScripts()
		s.ResetCommands()
		s.Release(l)
		release := s.CalledByScripts()
		assert.Positive(t, acquire)
		assert.LessOrEqual(t, acquire, 6, "acquire, %s key", state)
		assert.Positive(t, release)
		assert.LessOrEqual(t, release, 5, "release, %s key", state)
	}
}
