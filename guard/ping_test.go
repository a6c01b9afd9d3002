package guard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// Close ends a Ping that nobody answers.
func TestPing_OfAGuardThatIsClosedMeanwhile(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		s.Fail(errDown)
		ended := make(chan error, 1)
		go func() { ended <- g.Ping(t.Context()) }()
		time.Sleep(guard.DefaultStoreTimeout / 4)
		require.Empty(t, ended)
		_ = g.Close()
		err := <-ended
		require.ErrorIs(t, err, guard.ErrClosed)
		require.NotErrorIs(t, err, guard.ErrStore)
	})
}
