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
		logged := func(l guard.Lock) string {
			defer out.Reset()
			o.Event(t.Context(), l, guard.Event{Kind: guard.EventLoss, Err: &guard.LostError{Name: l.Name, Key: l.Key, Cause: guard.ErrRevoked}})
			return out.String()
		}
		assert.Contains(t, logged(lock), "lock=order-payment")
		assert.Empty(t, logged(lock))
		assert.Contains(t, logged(guard.Lock{Key: "secret"}), `work" error=`, "another lock, without a name")
		time.Sleep(10*time.Second - 1)
		assert.Empty(t, logged(lock))
		time.Sleep(time.Nanosecond)
		assert.Contains(t, logged(lock), "omitted=2\n")
		time.Sleep(10 * time.Second)
		assert.NotContains(t, logged(lock), "omitted", "none was left out since the last line")
	})
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
		{guard.EventUnknownOutcome, once(guard.ErrUnknownOutcome), `ERROR msg="work of Once began and never finished" lock=order-payment error=`, "idempotency_outcome_unknown"},
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

func TestLogger_NilIsTheDefault(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	guardslog.New(nil).Event(t.Context(), lock, guard.Event{Kind: guard.EventLoss, Err: guard.ErrLost})
	assert.Contains(t, out.String(), "lost under its work")
}

func ExampleNew() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	g, _ := guard.NewWithStore(guardtest.NewStore(), guard.Observe(guardslog.New(log)))
	defer g.Close()
	_ = g.WithLock(context.Background(), guard.Key("order:42"), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}, guard.Name("order-payment"), guard.MaxHold(time.Millisecond))
	// Output:
	// level=ERROR msg="lock lost under its work" lock=order-payment error="guard: lock \"order-payment\" was lost: guard: MaxHold is used up" error_type=lock_max_hold
}

// By default, a wait is long from 5 s on. A wait that ended with the lock has no error.
func TestLogger_LongWaits(t *testing.T) {
	for _, row := range []struct {
		opt    guardslog.Option
		waited time.Duration
		err    error
		want   string // "" is nothing
	}{
		{guardslog.LongWait(0), time.Hour, guard.ErrBusy, ""},
		{guardslog.LongWait(-time.Second), time.Hour, guard.ErrBusy, ""},
		{guardslog.LongWait(time.Second), time.Second - 1, guard.ErrBusy, ""},
		{guardslog.LongWait(time.Second), time.Second, guard.ErrBusy, `waited=1s outcome=x error="guard: lock is busy" error_type=lock_busy`},
		{nil, 5*time.Second - 1, nil, ""},
		{nil, 5 * time.Second, nil, "waited=5s outcome=x"},
	} {
		o, out := logs(row.opt)
		o.WaitEnd(t.Context(), lock, guard.WaitResult{Outcome: "x", Elapsed: row.waited, Err: row.err})
		if row.want == "" {
			assert.Empty(t, out.String())
		} else {
			assert.Contains(t, out.String(), `level=WARN msg="long wait for a lock" lock=order-payment `+row.want+"\n")
		}
	}
}

// It remembers 1000 things, and forgets all when there is one more. Different things under one Name are not the same thing.
func TestLogger_RemembersABoundedNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, out := logs()
		logs := func(i int) {
			kind := []guard.EventKind{guard.EventLoss, guard.EventStoreFailure}[i%2]
			o.Event(t.Context(), guard.Lock{Name: fmt.Sprint(i / 2)}, guard.Event{Kind: kind, Err: guard.ErrLost})
		}
		for i := range 1000 {
			logs(i)
		}
		logs(0)
		assert.Equal(t, 1000, strings.Count(out.String(), "\n"))
		logs(1000)
		logs(0)
		assert.Equal(t, 1002, strings.Count(out.String(), "\n"))
	})
}
