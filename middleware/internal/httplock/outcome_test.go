package httplock

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

type statusError int

func (s statusError) Error() string   { return "secret" }
func (s statusError) StatusCode() int { return int(s) }

type frameworkError struct {
	code    int
	message string
}

func (frameworkError) Error() string { return "secret" }

// speaking has a status and words of its own.
type speaking struct{ statusError }

func (speaking) Detail() string { return "own words" }

// What a client reads: the words of the table, or those that the error of a key function has for it.
func TestOutcome_Details(t *testing.T) {
	t.Parallel()
	const (
		missing = "The request does not say which resource it is for, or not in a valid way."
		noKey   = "The server could not tell which resource the request is for."
	)
	words := func(err error) (int, string, bool) {
		var own frameworkError
		if errors.As(err, &own) {
			return own.code, own.message, true
		}
		return 418, "framework's words", errors.As(err, new(statusError))
	}
	for _, row := range []struct {
		err           error
		known         HTTPError
		status        int
		title, detail string
	}{
		{statusError(400), nil, 400, "Invalid lock key", missing},
		{statusError(499), nil, 499, "Invalid lock key", missing},
		{statusError(500), nil, 500, "Invalid lock key", noKey},
		{statusError(599), nil, 599, "Invalid lock key", noKey},
		{statusError(399), nil, 500, "Invalid lock key", noKey},
		{statusError(600), nil, 500, "Invalid lock key", noKey},
		{speaking{502}, words, 502, "Invalid lock key", "own words"},
		{statusError(404), words, 404, "Invalid lock key", "framework's words"},
		{frameworkError{404, "gone"}, words, 404, "Invalid lock key", "gone"},
		{frameworkError{404, ""}, words, 404, "Invalid lock key", missing},
		{errors.New("no"), words, 500, "Invalid lock key", noKey},
	} {
		p := Of(t.Context(), &guard.KeyError{Err: row.err}, row.known).Problem
		assert.Equal(t, Problem{Type: p.Type, Title: row.title, Status: row.status, Detail: row.detail, Code: "lock_key_invalid"}, p, "%#v", row.err)
	}
	assert.Equal(t, noKey, Of(t.Context(), guard.ErrKey, words).Detail, "without an error of a key function")
}

// The body of a request that Once cannot read.
func TestOutcome_BodyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	cut, lost := errors.New("cut"), &guard.LostError{Cause: errors.New("cause")}
	large := &http.MaxBytesError{Limit: 1}
	for _, row := range []struct {
		ctx    context.Context
		err    error
		kind   locking.Kind
		status int
	}{
		{gone, &bodyError{large}, locking.Cancelled, 499},
		{t.Context(), &bodyError{large}, locking.KeyMissing, 413},
		{t.Context(), &bodyError{cut}, locking.KeyMissing, 400},
		{t.Context(), errors.Join(lost, &bodyError{cut}), locking.Lost, 500},
		{t.Context(), errors.Join(lost, &guard.KeyError{Err: statusError(404)}), locking.Lost, 500},
	} {
		o := Of(row.ctx, row.err, nil)
		assert.Equal(t, row.kind, o.Kind, "%v", row.err)
		assert.Equal(t, row.status, o.Status, "%v", row.err)
		assert.Equal(t, row.kind != locking.Cancelled, o.Detail != "", "%v", row.err)
	}
	for _, p := range []Problem{inProgress, bodyTooLarge, bodyUnreadable} {
		assert.Equal(t, typeBase+p.Code, p.Type)
		assert.NotEmpty(t, p.Title)
		assert.NotEmpty(t, p.Detail, p.Title)
	}
	require.EqualError(t, &bodyError{cut}, "read the body of the request: cut")
	require.ErrorIs(t, &bodyError{cut}, cut)
}

func TestOutcome_BusyStatus(t *testing.T) {
	t.Parallel()
	assert.NoError(t, checkBusyStatus(0), "the default")
	for _, code := range []int{409, 423, 429, 503} {
		assert.NoError(t, checkBusyStatus(code))
		ctx := withBusyStatus(withBusyStatus(context.Background(), code), 0)
		for _, busy := range []error{&guard.BusyError{}, &guard.BusyError{Limit: 3}, &guard.BusyError{HeldOver: true}, &guard.BusyError{Waited: 1}} {
			assert.Equal(t, code, Of(ctx, busy, nil).Status)
		}
		assert.Equal(t, 503, Of(ctx, guard.ErrClosed, nil).Status, "only for busy")
	}
	for _, code := range []int{200, 404, 500} {
		assert.Error(t, checkBusyStatus(code))
	}
}

func TestOutcome_Header(t *testing.T) {
	t.Parallel()
	h := http.Header{"Content-Length": {"9"}, "Etag": {`"x"`}, "Set-Cookie": {"a=b"}}
	Of(context.Background(), &guard.BusyError{RetryAfter: 1001 * time.Millisecond}, nil).SetHeader(h)
	assert.Equal(t, http.Header{"Cache-Control": {"no-store"}, "Retry-After": {"2"}, "Set-Cookie": {"a=b"}}, h)
}

func TestOutcome_ProblemOfAStrangersError(t *testing.T) {
	t.Parallel()
	p := Of(context.Background(), errors.New("secret"), nil).Problem
	assert.Equal(t, Problem{Type: "about:blank", Title: "Internal Server Error", Status: 500}, p)
	assert.Equal(t, "Internal Server Error", (&Draft{Problem: p}).String())
}

// What the application answers in place of a Problem is not labelled as one.
func TestProblem_IsLabelledWhereItIsSent(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		sent      bool
		set, want string
	}{
		{true, "application/json; charset=UTF-8", "application/problem+json"},
		{true, "application/vnd.shop+json", "application/vnd.shop+json"},
		{false, "application/json", "application/json"},
	} {
		p, h := new(Draft), http.Header{"Content-Type": {"text/html"}}
		var before func()
		p.Prepare(h, func(f func()) { before = f })
		assert.Empty(t, h.Get("Content-Type"), "that of an answer that the handler began")
		if row.sent {
			_, err := json.Marshal(p)
			require.NoError(t, err)
		}
		h.Set("Content-Type", row.set)
		before()
		assert.Equal(t, row.want, h.Get("Content-Type"))
	}
}
