package httplock

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard/guardtest"
)

// tested is an adapter whose Rules are of this package.
var tested = &Adapter{Name: "test"}

func TestMain(m *testing.M) {
	RuleOf = func(rule any) Rule { return rule.(Rule) }
	goleak.VerifyTestMain(m)
}

// A handler that fails keeps no answer: the next request runs it again.
func TestOnce_AHandlerThatFailsIsRunAgain(t *testing.T) {
	t.Parallel()
	l, err := tested.Bind(guardtest.NewMemoryGuard(t), Rule{Locks: Keys.Lock("all", nil).Once(time.Hour, nil).SharedAnswer()})
	require.NoError(t, err)
	failed := errors.New("failed")
	for _, row := range []struct {
		failure error
		runs    bool
	}{{failed, true}, {nil, true}, {nil, false}} {
		w, r, ran := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/pay", nil), false
		result := l.Serve(NewAnswer(w), r, "/pay", func(context.Context) error {
			ran = true
			return row.failure
		})
		require.NoError(t, result.Err)
		assert.Equal(t, row.failure, result.Own)
		assert.Equal(t, row.runs, ran)
		assert.Equal(t, !row.runs, result.kept != nil)
	}
}
