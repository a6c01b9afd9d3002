package records

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

// memory is the store in memory, which keeps the rules, too. It has no back door: a record goes
// by Forget, or with the whole store, and no claim is skipped.
type memory struct {
	*modeltest.Memory

	end context.CancelFunc
}

func (m *memory) begin(t *testing.T) {
	t.Helper()
	if m.end != nil {
		m.end()
	}
	ctx, end := context.WithCancel(t.Context())
	m.Memory, m.end = modeltest.InMemory(ctx, owners+1), end
	synctest.Wait()
}

func (m *memory) heard(*testing.T) []string { return m.Granted() }

func (m *memory) fault(t *testing.T, e *event) bool {
	t.Helper()
	switch e.what {
	case dropsLock:
		m.Drop(modeltest.Key)
	case dropsRecord:
		id, err := m.Recorded(t.Context(), modeltest.Key)
		require.NoError(t, err)
		got, err := m.Forget(t.Context(), guardstore.Forget{Key: modeltest.Key, RecordID: id})
		require.NoError(t, err)
		return got == guardstore.ForgetDone
	case flushes:
		time.Sleep(time.Millisecond)
		m.begin(t)
	default:
		return false
	}
	return true
}

// age and look are for what only Redis shows.
func (m *memory) age(*testing.T) {}

func (m *memory) look(*testing.T, *play) {}

// TestReplayInMemory makes the calls on the store in memory.
func TestReplayInMemory(t *testing.T) {
	t.Parallel()
	modeltest.InBubble(t, ways(), func(t *testing.T, way []*event) (wrong string, done bool) {
		t.Helper()
		m := &memory{}
		defer func() { m.end() }()
		return goes(t, m, &rules{}, way)
	})
}
