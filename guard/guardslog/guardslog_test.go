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

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardslog"
	"github.com/redlatch/redlatch/guard/guardtest"
)

var lock = guard.Lock{Name: "order-payment", Key: "secret"}

// logs gives an Observer, and what it has logged.
func logs(opts ...guardslog.Option) (guard.Observer, *bytes.Buffer) {
	var out bytes.Buffer
	return guardslog.New(slog.New(slog.NewTextHandler(&out, nil)), opts...), &out
}

func TestLogger_RepeatedEventsAreOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, out := logs()
		lost := guard.Event{Kind: guard.EventLoss, Err: &guard.LostError{Name: lock.Name, Key: lock.Key, Cause: guard.ErrRevoked}}
		for range 3 {
			o.Event(t.Context(), lock, lost)
			o.Event(t.Context(), lock, guard.Event{Kind: guard.EventRenewal})
		}
		o.Event(t.Context(), guard.Lock{Key: "secret"}, lost)
		assert.NotContains(t, out.String(), "lock=\"\"")
		assert.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
		for _, want := range []string{"omitted=2", "omitted=1"} {
			out.Reset()
			time.Sleep(10 * time.Second)
			o.Event(t.Context(), lock, lost)
			assert.Contains(t, out.String(), want)
			time.Sleep(10*time.Second - 1)
			o.Event(t.Context(), lock, lost)
			assert.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
		}
		time.Sleep(time.Minute)
		o.Event(t.Context(), lock, lost)
		out.Reset()
		time.Sleep(time.Minute)
		o.Event(t.Context(), lock, lost)
		assert.Contains(t, out.String(), "level=ERROR")
		assert.NotContains(t, out.String(), "omitted", "none was left out since the last line")
	})
}

func TestLogger_LongWaits(t *testing.T) {
	for _, row := range []struct {
		from   time.Duration
		waited time.Duration
		logged bool
	}{
		{0, time.Hour, false},
		{0, 0, false},
		{-time.Second, time.Hour, false},
		{-time.Second, 0, false},
		{time.Second, time.Second - 1, false},
		{time.Second, time.Second, true},
	} {
		o, out := logs(guardslog.LongWait(row.from), nil)
		o.WaitEnd(t.Context(), lock, guard.WaitResult{Outcome: guard.OutcomeBusy, Elapsed: row.waited, Err: guard.ErrBusy})
		const want = `level=WARN msg="long wait for a lock" lock=order-payment waited=1s outcome=busy error="guard: lock is busy" error_type=lock_busy`
		assert.Equal(t, row.logged, strings.Contains(out.String(), want), out.String())
		assert.Equal(t, row.logged, out.Len() > 0)
	}
}

func TestLogger_Events(t *testing.T) {
	down := errors.New("down")
	once := func(err error) error { return &guard.OnceError{Name: lock.Name, Key: lock.Key, Err: err} }
	for _, row := range []struct {
		kind guard.EventKind
		err  error
		want string // "" is nothing
		end  string
	}{
		{guard.EventLoss, &guard.LostError{Key: lock.Key, Cause: guard.ErrRevoked}, `ERROR msg="lock lost under its work" lock=order-payment error=`, "lock_revoked"},
		{guard.EventFailedOpen, &guard.StoreError{Err: down}, `ERROR msg="work runs without its lock" lock=order-payment error=`, "lock_store_unavailable"},
		{guard.EventStoreFailure, down, `WARN msg="lock store failed" lock=order-payment op=x error=`, "error=down"}, // no type
		{guard.EventReleaseFailure, down, `WARN msg="release of a lock not confirmed" lock=order-payment op=x error=`, "error=down"},
		{
			guard.EventUnknownOutcome, once(guard.ErrUnknownOutcome),
			`ERROR msg="work of Once began and never finished" lock=order-payment error=`, "idempotency_outcome_unknown",
		},
		{guard.EventOtherInput, once(guard.ErrOtherInput), `WARN msg="key of Once used with another input" lock=order-payment error=`, "idempotency_key_reused"},
		{guard.EventNotKept, once(guard.ErrNotKept), `WARN msg="result of Once not kept" lock=order-payment op=x error=`, "idempotency_result_not_kept"},
		{guard.EventReplayed, nil, "", ""},
		{guard.EventHandover, nil, "", ""},
	} {
		o, out := logs(guardslog.Every(0))
		for range 2 {
			o.Event(t.Context(), lock, guard.Event{Kind: row.kind, Op: "x", Err: row.err})
		}
		if row.want == "" {
			assert.Empty(t, out.String())
			continue
		}
		assert.Equal(t, 2, strings.Count(out.String(), " level="+row.want), out.String())
		assert.Equal(t, 2, strings.Count(out.String(), row.end+"\n"), out.String())
		assert.NotContains(t, out.String(), "secret")
	}
}

// By default, a wait is long from 5 s on. A wait that ended with the lock has no error.
func TestLogger_LongWaitsByDefault(t *testing.T) {
	o, out := logs()
	o.WaitEnd(t.Context(), lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Elapsed: 5*time.Second - 1})
	assert.Empty(t, out.String())
	o.WaitEnd(t.Context(), lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Elapsed: 5 * time.Second})
	assert.Contains(t, out.String(), "lock=order-payment waited=5s outcome=acquired\n")
}

// Different things under one Name are not the same thing.
func TestLogger_DifferentThingsHaveALineEach(t *testing.T) {
	o, out := logs()
	down := errors.New("down")
	o.Event(t.Context(), lock, guard.Event{Kind: guard.EventStoreFailure, Err: down})
	o.Event(t.Context(), lock, guard.Event{Kind: guard.EventReleaseFailure, Err: down})
	assert.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
}

// It remembers 1000 things, and forgets all when there is one more.
func TestLogger_RemembersABoundedNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, out := logs()
		event := func(i int) {
			o.Event(t.Context(), guard.Lock{Name: fmt.Sprint(i)}, guard.Event{Kind: guard.EventLoss, Err: guard.ErrLost})
		}
		for i := range 1000 {
			event(i)
		}
		event(0)
		assert.Equal(t, 1000, strings.Count(out.String(), "\n"), "all are remembered")
		event(1000)
		event(0)
		assert.Equal(t, 1002, strings.Count(out.String(), "\n"), "they were forgotten")
	})
}

func TestLogger_NilIsTheDefault(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	guardslog.New(nil).Event(t.Context(), lock, guard.Event{Kind: guard.EventLoss, Err: guard.ErrLost})
	assert.Contains(t, out.String(), "lost under its work")
}

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
	// level=ERROR msg="lock lost under its work" lock=order-payment error="guard: lock \"order-payment\" was lost: guard: MaxHold is used up" error_type=lock_max_hold
}
