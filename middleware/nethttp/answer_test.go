package guardhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func TestAnswer_ErrorsAreHandedToOnErrorOnly(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	held, err := g.Acquire(t.Context(), guard.Key("order:7"))
	require.NoError(t, err)
	defer func() { _ = held.Release(t.Context()) }()
	var got error
	h := route(guardhttp.Middleware(g, guardhttp.Lock("order:{id}", guard.NoWait()).BusyStatus(429).OnError(
		func(w http.ResponseWriter, r *http.Request, err error) {
			got = err
			assert.NoError(t, r.Context().Err())
			if errors.Is(err, guard.ErrBusy) {
				w.Header().Set("X-Own", "1")
			}
			guardhttp.WriteError(w, r, err)
		}))(http.NotFoundHandler()))
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, pay())
	var busy *guard.BusyError
	assert.ErrorAs(t, got, &busy)
	assert.Equal(t, http.StatusTooManyRequests, rec.Code, "WriteError knows the status")
	assert.Equal(t, "1", rec.Header().Get("X-Own"))

	got = nil
	r := httptest.NewRequest(http.MethodPost, "/orders/8/pay", nil)
	rec = httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	assert.NoError(t, got)
	assert.Equal(t, http.StatusNotFound, rec.Code)
}

func TestAnswer_WriteErrorForLocksTakenInCode(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	guardhttp.WriteError(rec, pay(), nil)
	assert.False(t, rec.Flushed)
	assert.Empty(t, rec.Header())

	rec = httptest.NewRecorder()
	guardhttp.WriteError(rec, pay(), errors.New("secret"))
	assert.Equal(t, http.StatusInternalServerError, rec.Code)
	body, err := io.ReadAll(rec.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"type":"about:blank","title":"Internal Server Error","status":500}`, string(body))

	g := guardtest.NewGuard(t)
	held, err := g.Acquire(t.Context(), guard.Key("stock"))
	require.NoError(t, err)
	defer func() { _ = held.Release(t.Context()) }()
	h := route(guardhttp.Middleware(g, guardhttp.Lock("order:{id}").BusyStatus(423))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := guard.WithLock(r.Context(), guard.Key("stock"), func(context.Context) error { return nil }, guard.NoWait())
			guardhttp.WriteError(w, r, err)
			guardhttp.WriteError(w, r, err)
		})))
	rec = httptest.NewRecorder()
	h.ServeHTTP(rec, pay())
	assert.Equal(t, http.StatusLocked, rec.Code)
	assert.Equal(t, 1, bytes.Count(rec.Body.Bytes(), []byte("\n")), "one answer only")
}
