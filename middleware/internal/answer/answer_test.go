package answer

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// The answer of a handler whose lock is lost keeps nothing of what the handler said, and
// all of what outer layers had said before.
func TestAnswer_LostAnswerKeepsHeadersOfOuterLayersOnly(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Encoding", "outer")
	rec.Header().Add("Set-Cookie", "outer")
	lost := &guard.LostError{}
	ctx, lose := context.WithCancelCause(context.Background())
	a := New(ctx, rec)
	a.Header().Set("Content-Encoding", "inner")
	a.Header().Add("Set-Cookie", "inner")
	a.Header().Set("Location", "/orders/7")
	a.WriteHeader(http.StatusCreated)
	lose(lost)
	_, err := a.WriteString("late")
	assert.ErrorIs(t, err, guard.ErrLost)
	assert.ErrorIs(t, a.Finish(nil), guard.ErrLost, "a loss that kept an answer back is told")
	assert.False(t, a.Sent())
	assert.Equal(t, http.Header{"Content-Encoding": {"outer"}, "Set-Cookie": {"outer"}}, rec.Header())
}

// Any lock of several counts, whichever the context has innermost.
func TestAnswer_LossOfAnyLockRefusesTheAnswer(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close()) }()
	for _, lost := range []string{"a", "b"} {
		err = g.WithLocks(t.Context(), []guard.KeyFunc{guard.Key("a"), guard.Key("b")}, func(ctx context.Context) error {
			a := New(ctx, httptest.NewRecorder())
			store.Drop(lost)
			<-ctx.Done()
			_, err := a.WriteString("late")
			assert.ErrorIs(t, err, guard.ErrLost, lost)
			return nil
		})
		assert.ErrorIs(t, err, guard.ErrLost)
	}
}

func TestAnswer_StatusAfterTheAnswerIsNotSent(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	a := New(context.Background(), rec)
	a.WriteHeader(http.StatusAccepted)
	a.Header().Set("X-Late", "1")
	_, err := io.WriteString(a, "body")
	require.NoError(t, err)
	assert.Equal(t, http.StatusAccepted, rec.Code)
	assert.Empty(t, rec.Result().Header.Get("X-Late"))
	assert.Equal(t, "1", a.Header().Get("X-Late"), "as trailers are set")
	assert.NoError(t, a.Finish(nil))
}
