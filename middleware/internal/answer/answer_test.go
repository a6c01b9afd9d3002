package answer

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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

func newCapture() (*Answer, *full) {
	to := newFull()
	a := New(context.Background(), to)
	a.Capture()
	return a, to
}

// What is captured reaches the client when it ends, as the handler began it.
func TestCapture_TheFirstStatusAndItsHeadersCount(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(a *Answer){
		"a status":      func(a *Answer) { a.WriteHeader(http.StatusOK) },
		"a first write": func(a *Answer) { _, _ = a.WriteString("a") },
	} {
		a, to := newCapture()
		a.Header().Set("Location", "/1")
		begin(a)
		a.Header().Set("Location", "/2")
		a.WriteHeader(http.StatusTeapot)
		_, _ = a.Write([]byte("b"))
		assert.Empty(t, to.Body, name)
		kept, ok := a.Keep()
		assert.True(t, ok && kept.whole, name)
		assert.NoError(t, a.Finish(nil))
		assert.Equal(t, http.StatusOK, to.Code, name)
		assert.Equal(t, http.StatusOK, kept.Status, name)
		assert.Equal(t, []string{"/1"}, kept.Header["Location"], name)
		assert.Equal(t, to.Body.String(), string(kept.body), name)
	}
}

// A body that comes from a reader does not go past the capture.
func TestCapture_WhatIsCopiedIsKept(t *testing.T) {
	t.Parallel()
	a, to := newCapture()
	_, err := a.Writer().(io.ReaderFrom).ReadFrom(strings.NewReader("copied"))
	assert.NoError(t, err)
	assert.Empty(t, to.did)
	kept, ok := a.Keep()
	assert.True(t, ok && kept.whole)
	assert.Equal(t, "copied", string(kept.body))
}

// What is too long, or was flushed, goes out at once, and no part of it is taken for the whole.
func TestCapture_WhatCannotBeKeptIsSentAsItComes(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(a *Answer){
		"too long": func(a *Answer) { _, _ = a.Write(make([]byte, MaxBody+1)) },
		"flushed": func(a *Answer) {
			_, _ = a.WriteString("a")
			assert.NoError(t, a.FlushBy(func() error { return nil }))
		},
	} {
		a, to := newCapture()
		answer(a)
		assert.NotEmpty(t, to.Body.String(), name)
		kept, ok := a.Keep()
		assert.True(t, ok, name)
		assert.False(t, kept.whole, name)
	}
}

func TestKept_AnswersAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, k := range []Kept{
		{Status: 204, Header: http.Header{}},
		{Status: 201, Header: http.Header{"Location": {"/a"}, "Content-Disposition": {"a\xff"}}, body: []byte("\r\n\r\n\x00body")},
	} {
		k.whole = true
		data, err := marshal(&k)
		require.NoError(t, err)
		var got *Kept
		require.NoError(t, unmarshal(data, &got))
		assert.Equal(t, k.Status, got.Status)
		assert.Equal(t, k.Header, got.Header)
		assert.Equal(t, string(k.body), string(got.body))
	}
}

// Whatever is in Redis, a replay neither panics nor sets a header that is never kept.
func TestKept_RecordsThatAreNoAnswersAreRefused(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		"", "200", "200\r\n", "\r\n\r\n", "x\r\n\r\n", "99\r\n\r\n", "500\r\n\r\n", "-1\r\n\r\n", "1000\r\n\r\n",
		"200\r\nSet-Cookie: a=b\r\n\r\n", "200\r\nno header\r\n\r\n",
	} {
		var got *Kept
		require.Error(t, unmarshal([]byte(data), &got), "%q", data)
		assert.Nil(t, got, "%q", data)
	}
	_, err := marshal("no answer")
	assert.Error(t, err)
}

func TestKept_LineBreaksInAHeaderAddNone(t *testing.T) {
	t.Parallel()
	data, err := marshal(&Kept{Status: 201, Header: http.Header{"Location": {"/a\r\nSet-Cookie: b=c\r\n\r\nbody"}}, whole: true})
	require.NoError(t, err)
	var got *Kept
	require.NoError(t, unmarshal(data, &got))
	assert.Len(t, got.Header, 1)
	assert.NotContains(t, got.Header.Get("Location"), "\n")
	assert.Empty(t, got.body)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
