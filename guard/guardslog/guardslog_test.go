package guardslog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardslog"
	"github.com/redlatch/redlatch/guard/guardtest"
)

var lock = guard.Lock{Name: "order-payment", Key: "secret"}

func TestLogger_OneLineForTheSameThing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := guardslog.New(slog.New(slog.NewTextHandler(&out, nil)))
		loss := &guard.LostError{Name: lock.Name, Key: lock.Key, Cause: guard.ErrRevoked}
		for range 3 {
			o.Event(t.Context(), lock, guard.Event{Kind: guard.Loss, Err: loss})
			o.Event(t.Context(), lock, guard.Event{Kind: guard.Renewal})
		}
		o.Event(t.Context(), guard.Lock{Name: "other"}, guard.Event{Kind: guard.Loss, Err: loss})
		assert.Equal(t, 2, strings.Count(out.String(), "level=ERROR"), out.String())
		assert.Contains(t, out.String(), "error_type=lock_revoked")
		assert.NotContains(t, out.String(), "secret")
		time.Sleep(10 * time.Second)
		o.Event(t.Context(), lock, guard.Event{Kind: guard.Loss, Err: loss})
		assert.Contains(t, out.String(), "omitted=2")
		out.Reset()
		time.Sleep(10 * time.Second)
		o.Event(t.Context(), lock, guard.Event{Kind: guard.Loss, Err: loss})
		assert.Contains(t, out.String(), "level=ERROR")
		assert.NotContains(t, out.String(), "omitted", "none was left out since the last line")
	})
}

func TestLogger_LongWaitZeroLogsNoWait(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second} {
		var out bytes.Buffer
		o := guardslog.New(slog.New(slog.NewTextHandler(&out, nil)), guardslog.LongWait(d))
		o.WaitEnd(t.Context(), lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Elapsed: time.Hour})
		o.WaitEnd(t.Context(), lock, guard.WaitResult{Outcome: guard.OutcomeAcquired})
		assert.Empty(t, out.String(), d)
	}
}

func TestLogger_WorkWithoutItsLockIsAnError(t *testing.T) {
	var out bytes.Buffer
	o := guardslog.New(slog.New(slog.NewTextHandler(&out, nil)))
	o.Event(t.Context(), lock, guard.Event{Kind: guard.FailedOpen, Err: &guard.StoreError{Op: "acquire", Name: lock.Name, Err: errors.New("down")}})
	assert.Contains(t, out.String(), `level=ERROR msg="work runs without its lock" lock=order-payment`)
	assert.Contains(t, out.String(), "error_type=store_unavailable")
}

func TestLogger_WhatOnceRefusesIsLogged(t *testing.T) {
	var out bytes.Buffer
	o := guardslog.New(slog.New(slog.NewTextHandler(&out, nil)))
	for kind, err := range map[guard.EventKind]error{
		guard.UnknownOutcome: guard.ErrUnknownOutcome, guard.OtherInput: guard.ErrOtherInput, guard.NotKept: guard.ErrNotKept,
	} {
		o.Event(t.Context(), lock, guard.Event{Kind: kind, Op: "acquire", Err: &guard.OnceError{Name: lock.Name, Key: lock.Key, Err: err}})
	}
	o.Event(t.Context(), lock, guard.Event{Kind: guard.Replayed, Op: "acquire"})
	for _, line := range []string{
		`level=ERROR msg="work of Once began and never finished" lock=order-payment`, "error_type=once_unknown_outcome",
		`level=WARN msg="key of Once used with another input" lock=order-payment`, "error_type=once_other_input",
		`level=WARN msg="result of Once not kept" lock=order-payment op=acquire`, "error_type=once_not_kept",
	} {
		assert.Contains(t, out.String(), line)
	}
	assert.Equal(t, 3, strings.Count(out.String(), "\n"), "a replay is in order")
	assert.NotContains(t, out.String(), "secret")
}

// An empty field says less than none.
func TestLogger_AnErrorWithoutATypeHasNoErrorType(t *testing.T) {
	var out bytes.Buffer
	o := guardslog.New(slog.New(slog.NewTextHandler(&out, nil)))
	o.Event(t.Context(), lock, guard.Event{Kind: guard.StoreFailure, Op: "renew", Err: errors.New("down")})
	assert.Contains(t, out.String(), "error=down")
	assert.NotContains(t, out.String(), "error_type")
}

func TestLogger_WhatIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := guardslog.New(slog.New(slog.NewTextHandler(&out, nil)), guardslog.LongWait(time.Second), guardslog.Every(0), nil)
		store := guardtest.NewStore()
		g, err := guard.NewWithStore(store, guard.Observe(o))
		require.NoError(t, err)
		defer g.Close()
		l, err := g.Acquire(t.Context(), guard.Key("k"))
		require.NoError(t, err)
		require.ErrorIs(t, g.WithLock(t.Context(), guard.Key("k"), nil2, guard.Wait(2*time.Second)), guard.ErrBusy)
		assert.Contains(t, out.String(), "long wait for a lock")
		require.NoError(t, l.Release(t.Context()))
		store.Fail(errors.New("down"))
		require.NoError(t, g.WithLock(t.Context(), guard.Key("k"), nil2, guard.FailOpen()))
		synctest.Wait() // what is given back behind the caller fails, too, and is logged
		assert.Contains(t, out.String(), "work runs without its lock")
		assert.Contains(t, out.String(), "lock store failed")
		store.Fail(nil)
	})
}

func nil2(context.Context) error { return nil }

func ExampleNew() {
	plain := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	log := slog.New(slog.NewTextHandler(os.Stdout, plain))
	g, err := guard.NewWithStore(guardtest.NewStore(), guard.Observe(guardslog.New(log)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	_ = g.WithLock(context.Background(), guard.Key("order:42"), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}, guard.Name("order-payment"), guard.MaxHold(time.Millisecond))
	// Output:
	// level=ERROR msg="lock lost under its work" lock=order-payment error="guard: lock \"order-payment\" was lost: guard: MaxHold, or the ttl of a FixedLease, is used up" error_type=lock_max_hold
}
