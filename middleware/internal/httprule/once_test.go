package httprule

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/middleware/internal/answer"
)

// A handler that fails keeps no answer: the next request runs it again.
func TestOnce_AHandlerThatFailsIsRunAgain(t *testing.T) {
	t.Parallel()
	l, err := adapter.Lock("all", nil).Once(time.Hour, nil).SharedAnswer().Bind(guardtest.NewMemoryGuard(t))
	require.NoError(t, err)
	failed := errors.New("failed")
	for _, row := range []struct {
		failure error
		runs    bool
	}{{failed, true}, {nil, true}, {nil, false}} {
		w, ran := httptest.NewRecorder(), false
		call := Call[string]{Route: "/pay", Request: httptest.NewRequest(http.MethodPost, "/pay", nil), To: w, Replay: w}
		_, own, err := l.Serve(t.Context(), call, func(context.Context, *answer.Answer) error {
			ran = true
			return row.failure
		})
		require.NoError(t, err)
		assert.Equal(t, row.failure, own)
		assert.Equal(t, row.runs, ran)
	}
}
