package guard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// An outage is remembered for 30 s. After that, a call with FailOpen asks the store again.
func TestOutage_FailOpenForgetsAnOutageInTime(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		asks := func() bool {
			before := s.Calls("acquire")
			require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.FailOpen()))
			return s.Calls("acquire") > before
		}
		s.Fail(errDown)
		assert.True(t, asks())
		assert.False(t, asks(), "it is remembered")
		time.Sleep(30*time.Second - time.Millisecond)
		assert.False(t, asks(), "it is remembered for 30 s")
		time.Sleep(2 * time.Millisecond)
		assert.True(t, asks(), "it is remembered for longer")
		s.Fail(nil)
		time.Sleep(time.Second)
		assert.True(t, asks())
	})
}
