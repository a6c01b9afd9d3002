package httplock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

func TestTable(t *testing.T) {
	t.Parallel()
	live := context.Background()
	gone, leave := context.WithCancel(live)
	leave()
	late, end := context.WithTimeout(live, 0)
	defer end()
	fault := func(err error) error { return &guard.KeyError{Key: "secret", Reason: "r", Err: err} }
	failed := errors.New("secret")

	for name, row := range map[string]struct {
		ctx        context.Context
		err        error
		status     int
		code       string
		retryAfter int
	}{
		"busy":                                {live, &guard.BusyError{Key: "secret"}, 409, "lock_busy", 1},
		"busy, wrapped":                       {live, fmt.Errorf("x: %w", &guard.BusyError{RetryAfter: 2100 * time.Millisecond}), 409, "lock_busy", 3},
		"busy, only the sentinel":             {live, guard.ErrBusy, 409, "lock_busy", 1},
		"waited":                              {live, &guard.BusyError{Waited: time.Second, RetryAfter: 2 * time.Second}, 409, "lock_wait_timeout", 2},
		"full":                                {live, &guard.BusyError{Waited: time.Second, Limit: 3, RetryAfter: 2 * time.Second}, 429, "lock_full", 2},
		"held over":                           {live, &guard.BusyError{HeldOver: true, RetryAfter: 9 * time.Second}, 409, "lock_held_over", 9},
		"busy, deadline":                      {late, &guard.BusyError{Err: context.DeadlineExceeded, RetryAfter: 4 * time.Second}, 503, "deadline_exceeded", 4},
		"busy, deadline of a context within":  {live, &guard.BusyError{Waited: 1, Err: context.DeadlineExceeded}, 503, "deadline_exceeded", 1},
		"busy, canceled by the program":       {live, &guard.BusyError{Waited: 1, Err: context.Canceled}, 409, "canceled", 1},
		"deadline before any answer":          {late, context.DeadlineExceeded, 503, "deadline_exceeded", 1},
		"store down":                          {live, &guard.StoreError{Err: failed}, 503, "lock_store_unavailable", 1},
		"store down, by a deadline":           {live, &guard.StoreError{Err: context.DeadlineExceeded}, 503, "lock_store_unavailable", 1},
		"closed":                              {live, guard.ErrClosed, 503, "shutting_down", 1},
		"lost":                                {live, &guard.LostError{Cause: failed}, 500, "lock_lost", 0},
		"lost by Close":                       {live, &guard.LostError{Cause: guard.ErrClosed}, 500, "lock_lost", 0},
		"lost by MaxHold":                     {live, &guard.LostError{Cause: guard.ErrMaxHold}, 500, "lock_max_hold", 0},
		"lost, joined":                        {live, errors.Join(&guard.LostError{Cause: &guard.StoreError{}}, failed), 500, "lock_lost", 0},
		"lost, and nobody there":              {gone, &guard.LostError{Cause: failed}, 500, "lock_lost", 0},
		"busy because an outer lock was lost": {live, &guard.BusyError{Err: &guard.LostError{}}, 500, "lock_lost", 0},
		"gone while busy":                     {gone, &guard.BusyError{Err: context.Canceled}, 499, "", 0},
		"gone before any answer":              {gone, context.Canceled, 499, "", 0},
		"gone, store down":                    {gone, &guard.StoreError{Err: failed}, 499, "", 0},
		"gone, bad key":                       {gone, fault(locking.Invalid("r")), 499, "", 0},
		"key missing":                         {live, fault(locking.Invalid("r")), 400, "lock_key_invalid", 0},
		"key missing, wrapped":                {live, fault(fmt.Errorf("own: %w", fault(locking.Invalid("r")))), 400, "lock_key_invalid", 0},
		"template does not fit":               {live, fault(locking.Unfit("r")), 500, "lock_key_invalid", 0},
		"own key function":                    {live, fault(failed), 500, "lock_key_invalid", 0},
		"own key function, 404":               {live, fault(fmt.Errorf("x: %w", statusError(404))), 404, "lock_key_invalid", 0},
		"own key function, 502":               {live, fault(statusError(502)), 502, "lock_key_invalid", 0},
		"own key function, not an error":      {live, fault(statusError(200)), 500, "lock_key_invalid", 0},
		"own key function, nonsense":          {live, fault(statusError(600)), 500, "lock_key_invalid", 0},
		"own key function, framework":         {live, fault(frameworkError{422, ""}), 422, "lock_key_invalid", 0},
		"own key function, store down":        {live, fault(&guard.StoreError{}), 500, "lock_key_invalid", 0},
		"key too long":                        {live, &guard.KeyError{Reason: "513 bytes"}, 500, "lock_key_invalid", 0},
		"no guard":                            {live, guard.ErrNoGuard, 500, "no_guard", 0},
		"option out of its bounds":            {live, &guard.OptionError{Option: "secret"}, 500, "option_invalid", 0},
		"not guard's":                         {live, failed, 500, "", 0},
		"deadline, not the request's":         {live, context.DeadlineExceeded, 500, "", 0},
		"not guard's, and gone":               {gone, failed, 500, "", 0},
		"canceled, not by the client":         {live, context.Canceled, 500, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := Of(row.ctx, row.err, func(err error) (int, string, bool) {
				var known frameworkError
				ok := errors.As(err, &known)
				return known.code, known.message, ok
			})
			p := o.Problem
			assert.Equal(t, row.status, p.Status)
			assert.Equal(t, row.code, p.Code)
			assert.Equal(t, row.retryAfter, p.RetryAfter)
			assert.Equal(t, row.status != 500 || row.code != "", o.Known())
			body, err := json.Marshal(p)
			require.NoError(t, err)
			assert.NotContains(t, string(body), "secret")
			if row.code != "" {
				assert.Equal(t, "https://pkg.go.dev/github.com/redlatch/redlatch/middleware/nethttp#"+row.code, p.Type)
				assert.NotEmpty(t, p.Title)
				assert.NotEmpty(t, p.Detail)
			}
		})
	}
}

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
}

// The body of a request that Once cannot read.
func TestOutcome_OfOnce(t *testing.T) {
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
		{t.Context(), &bodyError{cut}, locking.KeyMissing, 400},
		{t.Context(), &bodyError{large}, locking.KeyMissing, 413},
		{gone, &bodyError{large}, locking.Cancelled, 499},
		{t.Context(), errors.Join(lost, &bodyError{cut}), locking.Lost, 500},
	} {
		o := Of(row.ctx, row.err, nil)
		assert.Equal(t, row.kind, o.Kind, "%v", row.err)
		assert.Equal(t, row.status, o.Status, "%v", row.err)
	}
	require.EqualError(t, &bodyError{cut}, "read the body of the request: cut")
	require.ErrorIs(t, &bodyError{cut}, cut)
}

func TestOutcome_BusyStatus(t *testing.T) {
	t.Parallel()
	busy := &guard.BusyError{}
	assert.NoError(t, checkBusyStatus(0), "the default")
	for _, code := range []int{409, 423, 429, 503} {
		assert.NoError(t, checkBusyStatus(code))
		ctx := withBusyStatus(context.Background(), code)
		for _, busy := range []error{busy, &guard.BusyError{Limit: 3}, &guard.BusyError{HeldOver: true}, &guard.BusyError{Waited: 1}} {
			assert.Equal(t, code, Of(ctx, busy, nil).Status)
		}
		assert.Equal(t, code, Of(withBusyStatus(ctx, 0), busy, nil).Status)
	}
	for _, code := range []int{200, 404, 500} {
		assert.Error(t, checkBusyStatus(code))
	}
	ctx := withBusyStatus(context.Background(), 423)
	assert.Equal(t, 503, Of(ctx, guard.ErrClosed, nil).Status, "only for busy")
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
