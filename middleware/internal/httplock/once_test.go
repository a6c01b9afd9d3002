package httplock

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// tested is an adapter whose Rules are of this package.
var tested = &Adapter{Name: "test"}

func TestMain(m *testing.M) {
	RuleOf = func(rule any) Rule { return rule.(Rule) }
	goleak.VerifyTestMain(m)
}

// The method and the path count besides what the program compares, and the handler gets the whole body.
func TestOnce_AnOwnFingerprint(t *testing.T) {
	t.Parallel()
	var failure error
	l, err := tested.Bind(guardtest.NewMemoryGuard(t), Rule{
		Locks: Keys.Lock("all", nil).Once(time.Hour, nil).SharedAnswer(),
		Fingerprint: func(r *http.Request) ([]byte, error) {
			amount := make([]byte, 1)
			_, err := r.Body.Read(amount)
			assert.NoError(t, err)
			return amount, failure
		},
	})
	require.NoError(t, err)
	serve := func(path, body string) Result {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		return l.Serve(NewAnswer(httptest.NewRecorder()), r, "/pay", func(context.Context) error {
			got, err := io.ReadAll(r.Body)
			assert.Equal(t, body, string(got))
			return err
		})
	}
	require.NoError(t, serve("/pay", "7 EUR, sent at 10:00").Err)
	assert.NotNil(t, serve("/pay", "7 EUR, sent at 10:01").kept)
	assert.ErrorIs(t, serve("/pay", "8 EUR").Err, guard.ErrOtherInput)
	assert.ErrorIs(t, serve("/refund", "7 EUR").Err, guard.ErrOtherInput)
	body, err := takeBody(nil, &http.Request{})
	require.NoError(t, err)
	assert.Empty(t, body, "a request made by hand")
	failure = errors.New("no amount")
	assert.ErrorIs(t, serve("/pay", "7 EUR").Err, failure)
}
