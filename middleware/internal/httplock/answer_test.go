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

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// Any lock of several counts, whichever the context has innermost.
func TestAnswer_LossOfAnyLockRefusesTheAnswer(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, guard.TTL(100*time.Millisecond))
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close()) }()
	for _, lost := range []string{"a", "b"} {
		err = g.WithLocks(t.Context(), []guard.KeyFunc{guard.Key("a"), guard.Key("b")}, func(ctx context.Context) error {
			a := newAnswer(ctx, httptest.NewRecorder())
			store.Drop(lost)
			<-ctx.Done()
			_, err := a.WriteString("late")
			assert.ErrorIs(t, err, guard.ErrLost, lost)
			assert.False(t, a.Written())
			assert.ErrorIs(t, a.finish(nil), guard.ErrLost, "a loss that kept an answer back is told")
			_, err = newAnswer(context.WithoutCancel(ctx), httptest.NewRecorder()).WriteString("late")
			assert.Equal(t, lost == "b", errors.Is(err, guard.ErrLost), "by the clock, if the watchdog is late")
			return nil
		})
		assert.ErrorIs(t, err, guard.ErrLost)
	}
}

// An answer that has begun continues under a loss. Headers that are set after the status are trailers.
func TestAnswer_ContinuesUnderALossOnceBegun(t *testing.T) {
	t.Parallel()
	ctx, lose := context.WithCancelCause(context.Background())
	to := newFull()
	a := newAnswer(ctx, to)
	a.WriteHeader(http.StatusAccepted)
	a.Header().Set("X-Sum", "ab")
	_, err := a.WriteString("a")
	require.NoError(t, err)
	lose(&guard.LostError{})
	_, err = a.WriteString("b")
	require.NoError(t, err)
	require.ErrorIs(t, a.finish(guard.ErrLost), guard.ErrLost)
	assert.Equal(t, http.StatusAccepted, to.Code)
	assert.Empty(t, to.Result().Header.Get("X-Sum"))
	assert.Equal(t, "ab", to.Header().Get("X-Sum"))
	assert.Equal(t, "ab", to.Body.String())
}

// Under a lost lock the handler's own errors may go out, from 400 on, and nothing else: at once, and when it has
// returned.
func TestAnswer_UnderALossErrorsOfTheHandlerAreSent(t *testing.T) {
	t.Parallel()
	ctx, lose := context.WithCancelCause(context.Background())
	lose(&guard.LostError{})
	for status, want := range map[int]int{200: 0, 302: 0, 399: 0, 400: 400, 404: 404, 500: 500} {
		for name, write := range map[string]func(a *Answer) error{
			"status": func(*Answer) error { return nil },
			"body":   func(a *Answer) error { _, err := a.Write([]byte("x")); return err },
			"string": func(a *Answer) error { _, err := a.WriteString("x"); return err },
			"flush":  func(a *Answer) error { return a.FlushBy(func() error { return nil }) },
		} {
			to := newFull()
			to.Code = 0
			a := newAnswer(ctx, to)
			a.WriteHeader(status)
			err := write(a)
			assert.Equal(t, want == 0 && name != "status", err != nil, "%d %s", status, name)
			if err != nil {
				require.ErrorIs(t, err, guard.ErrLost)
			}
			err = a.finish(guard.ErrLost)
			require.ErrorIs(t, err, guard.ErrLost)
			assert.Equal(t, want, to.Code, "%d %s", status, name)
			assert.Equal(t, want != 0, a.Sent(), "%d %s", status, name)
		}
	}
}

// Informational statuses go out at once, any number of them, and are no answer. A switch of protocols is one: the
// connection is taken over after it, maybe by way of Unwrap.
func TestAnswer_InformationalStatusesAreNoAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{100, 102, 103, 199} {
		to := &statuses{newFull(), nil}
		a := newAnswer(context.Background(), to)
		a.WriteHeader(status)
		a.WriteHeader(status)
		assert.Equal(t, []int{status, status}, to.all)
		assert.False(t, a.Written())
		a.WriteHeader(http.StatusCreated)
		a.WriteHeader(http.StatusAccepted) // the original says that it is one too many
		require.NoError(t, a.finish(nil))
		assert.Equal(t, []int{status, status, 201, 202}, to.all)
	}
	for status, sent := range map[int]bool{101: true, 999: false} {
		a := newAnswer(context.Background(), unwrapper{newFull()})
		a.WriteHeader(status)
		assert.True(t, a.Written())
		assert.Equal(t, sent, a.Sent(), status)
	}
	for _, status := range []int{99, 1000} {
		assert.Panics(t, func() { newAnswer(context.Background(), httptest.NewRecorder()).WriteHeader(status) }, "as the original does")
	}
}

// statuses notes each status that it was asked to send.
type statuses struct {
	*full
	all []int
}

func (s *statuses) WriteHeader(status int) { s.all = append(s.all, status) }

// A status that a retry may not get is not kept, nor are headers of outer layers.
func TestKeep_StatusesAndHeaders(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		199: false, 200: true, 201: true, 206: false, 302: true, 304: false, 400: true, 401: false, 403: false, 404: true,
		408: false, 409: false, 412: false, 416: false, 422: true, 425: false, 429: false, 499: true, 500: false,
	} {
		a, _ := newCapture()
		a.status = status
		_, ok := a.keep(http.MethodPost, keptHeaders)
		assert.Equal(t, want, ok, status)
	}
	for _, implied := range []int{0, 204} {
		to := newFull()
		to.Header().Set("Content-Language", "outer")
		to.Header().Set("Content-Type", "outer")
		to.Header().Set("Vary", "outer")
		a := newAnswer(context.Background(), to)
		a.captures = true
		a.Implies(implied)
		a.Header().Set("Content-Type", "inner")
		a.Header().Set("Set-Cookie", "a=b")
		a.Header()["Etag"] = nil
		a.Header().Del("Content-Language")
		kept, ok := a.keep(http.MethodPost, keptHeaders)
		require.True(t, ok)
		assert.Equal(t, max(implied, 200), kept.Status)
		assert.Equal(t, http.Header{"Content-Type": {"inner"}, "Etag": nil}, kept.Header)

		again := httptest.NewRecorder()
		kept.Replay(again)
		assert.Equal(t, http.Header{"Content-Type": {"inner"}, "Etag": nil, "Idempotent-Replayed": {"true"}}, again.Header())
		assert.Equal(t, kept.Status, again.Code)
	}
}

// A body that comes from a reader does not go past the capture.
func TestCapture_ACopiedBodyIsKept(t *testing.T) {
	t.Parallel()
	a, to := newCapture()
	_, err := a.Writer().(io.ReaderFrom).ReadFrom(strings.NewReader("copied"))
	assert.NoError(t, err)
	assert.Empty(t, to.did)
	kept, ok := a.keep(http.MethodPost, keptHeaders)
	assert.True(t, ok && kept.whole)
	assert.Equal(t, "copied", string(kept.body))
}

// A handler that said another length than it wrote has broken off. To HEAD, it writes nothing.
func TestKeep_ABodyOfAnotherLengthIsNotWhole(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		length, method string
		whole          bool
	}{{"12", http.MethodPost, true}, {"13", http.MethodPost, false}, {"13", http.MethodHead, true}, {"x", http.MethodPost, true}} {
		a, _ := newCapture()
		a.Header().Set("Content-Length", row.length)
		_, _ = a.WriteString("twelve bytes")
		kept, ok := a.keep(row.method, keptHeaders)
		assert.True(t, ok)
		assert.Equal(t, row.whole, kept.whole, "%+v", row)
	}
	a, _ := newCapture()
	_, _ = a.Write(make([]byte, maxKeptBody))
	kept, _ := a.keep(http.MethodPost, keptHeaders)
	assert.True(t, kept.whole, "as long as can be kept")
}

func TestKeep_HeadersOfAConnectionAreRefused(t *testing.T) {
	t.Parallel()
	all, err := keepable([]string{"x-payment", "Set-Cookie"})
	require.NoError(t, err)
	assert.Subset(t, all, []string{"X-Payment", "Set-Cookie", "Location"})
	for _, name := range []string{"content-length", "Connection", "X Y", "Idempotent-Replayed", ""} {
		_, err := tested.Bind(nil, Rule{Locks: Keys.Lock("all", nil), Headers: []string{name}})
		assert.ErrorContains(t, err, "of Headers is no header that an answer keeps", name)
	}
}

// bodiless is the writer of an answer without a body.
type bodiless struct{ http.ResponseWriter }

func (bodiless) Write([]byte) (int, error) { panic("an answer without a body writes none") }

func TestAnswer_WithoutABodyWritesNone(t *testing.T) {
	t.Parallel()
	a := newAnswer(context.Background(), bodiless{newFull()})
	a.WriteHeader(http.StatusNoContent)
	require.NoError(t, a.finish(nil))
	(&Kept{Status: http.StatusNoContent}).Replay(bodiless{newFull()})
}

// newAnswer is the Answer of a handler that runs under the locks of ctx.
func newAnswer(ctx context.Context, w http.ResponseWriter) *Answer {
	a := NewAnswer(w)
	a.start(ctx)
	return a
}

func newCapture() (*Answer, *full) {
	to := newFull()
	a := newAnswer(context.Background(), to)
	a.captures = true
	return a, to
}

// A captured answer is sent when the handler returns, with the first status and the headers of that time.
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
		n, err := a.WriteString("bb")
		assert.Equal(t, 2, n)
		assert.NoError(t, err)
		assert.Empty(t, to.Body, name)
		kept, ok := a.keep(http.MethodPost, keptHeaders)
		assert.True(t, ok && kept.whole, name)
		assert.NoError(t, a.finish(nil))
		assert.Equal(t, http.StatusOK, to.Code, name)
		assert.Equal(t, http.StatusOK, kept.Status, name)
		assert.Equal(t, []string{"/1"}, kept.Header["Location"], name)
		assert.Equal(t, to.Body.String(), string(kept.body), name)
	}
}

func TestKept_AnswersAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, k := range []Kept{
		{Status: 204, Header: http.Header{}, body: []byte{}},
		{Status: 200, Header: http.Header{"Content-Type": nil, "Link": {"<a>", "<b>"}}, body: []byte("<html>")},
		{Status: 201, Header: http.Header{"Location": {"/a"}, "Content-Disposition": {"a\xff"}}, body: []byte("\r\n\r\n\x00body")},
	} {
		k.whole = true
		data, err := marshal(&k)
		require.NoError(t, err)
		var got *Kept
		require.NoError(t, keptHeaders.unmarshal(data, &got))
		assert.Equal(t, k.Status, got.Status)
		assert.Equal(t, k.Header, got.Header)
		assert.Equal(t, string(k.body), string(got.body))
		if len(k.body) > 0 {
			assert.Error(t, keptHeaders.unmarshal(data[:len(data)-1], &got), "a body that is cut off")
		}
	}
}

// A record that is no answer is an error.
func TestKept_RecordsThatAreNoAnswersAreRefused(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		"", "\r\n\r\n", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 x\r\n\r\n", "HTTP/1.1 500 No\r\n\r\n",
		"HTTP/1.1 199 No\r\n\r\n", "HTTP/1.1 200 OK\r\nno header\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na",
	} {
		var got *Kept
		require.Error(t, keptHeaders.unmarshal([]byte(data), &got), "%q", data)
		assert.Nil(t, got, "%q", data)
	}
	assert.Error(t, keptHeaders.unmarshal([]byte("HTTP/1.1 200 OK\r\n\r\n"), new(string)))
	_, err := marshal("no answer")
	assert.Error(t, err)
}

// A newer version may keep more headers: its answers are repeated without them.
func TestKept_HeadersThatAreNotKeptAreLeftOut(t *testing.T) {
	t.Parallel()
	var got *Kept
	require.NoError(t, keptHeaders.unmarshal([]byte("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nEtag: 7\r\n\r\nbody"), &got))
	assert.Equal(t, http.Header{"Etag": {"7"}}, got.Header)
	assert.Equal(t, "body", string(got.body))
}

func TestKept_LineBreaksInAHeaderAddNone(t *testing.T) {
	t.Parallel()
	data, err := marshal(&Kept{Status: 201, Header: http.Header{"Location": {"/a\r\nSet-Cookie: b=c\r\n\r\nbody"}}, whole: true})
	require.NoError(t, err)
	var got *Kept
	require.NoError(t, keptHeaders.unmarshal(data, &got))
	assert.Len(t, got.Header, 1)
	assert.NotContains(t, got.Header.Get("Location"), "\n")
	assert.Empty(t, got.body)
}
