package locking_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// What an error means is the same for all protocols; the HTTP table of it is in outcome.
func TestClassify(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err   error
		kind  locking.Kind
		retry bool
		fault string
	}{
		{errors.New("own"), locking.Foreign, false, ""},
		{&guard.BusyError{}, locking.Busy, true, ""},
		{&guard.BusyError{Waited: time.Second}, locking.WaitTimeout, true, ""},
		{&guard.BusyError{Limit: 3}, locking.Full, true, ""},
		{&guard.BusyError{Limit: 3, Waited: time.Second}, locking.Full, true, ""},
		{&guard.BusyError{HeldOver: true, Waited: time.Second}, locking.HeldOver, true, ""},
		{&guard.StoreError{}, locking.Down, true, ""},
		{guard.ErrClosed, locking.Closed, true, ""},
		{&guard.LostError{Cause: guard.ErrClosed}, locking.Lost, false, ""},
		{&guard.KeyError{Err: locking.Invalid("missing")}, locking.KeyMissing, false, ""},
		{&guard.KeyError{Err: locking.Unfit("no such value")}, locking.KeyUnfit, false, "key template does not fit the route"},
		{&guard.KeyError{Err: errors.New("own")}, locking.KeyFailed, false, "key function"},
		{guard.ErrBusy, locking.Busy, true, ""},
		{guard.ErrLost, locking.Lost, false, ""},
		{guard.ErrStore, locking.Down, true, ""},
		{guard.ErrKey, locking.KeyFailed, false, "key function"},
		{guard.ErrOption, locking.BadOption, false, "option"},
		{guard.ErrNoGuard, locking.NoGuard, false, "no Guard"},
		{&guard.OptionError{}, locking.BadOption, false, "option"},
		{&guard.OnceError{Err: guard.ErrOtherInput}, locking.OtherInput, false, ""},
		{&guard.OnceError{Err: guard.ErrUnknownOutcome}, locking.UnknownOutcome, false, ""},
		{&guard.OnceError{Err: guard.ErrNotKept}, locking.NotKept, false, ""},
	} {
		got := locking.Classify(t.Context(), row.err)
		assert.Equal(t, row.kind, got.Kind, "%#v", row.err)
		assert.Equal(t, row.retry, got.RetryAfter >= time.Second, "%#v", row.err)
		assert.Equal(t, row.fault, got.Kind.Fault(), "%#v", row.err)
		busy := []locking.Kind{locking.Busy, locking.WaitTimeout, locking.HeldOver, locking.Full}
		assert.Equal(t, slices.Contains(busy, row.kind), got.Kind.IsBusy(), "%#v", row.err)
	}
}

// The end of the caller's own context counts, except for a loss and errors of others. The end of another context counts
// if it ended a wait.
func TestClassify_WithAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	live := t.Context()
	gone, cancel := context.WithCancel(live)
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	own, lost := errors.New("own"), &guard.LostError{Cause: errors.New("own")}
	full := &guard.BusyError{Limit: 3, RetryAfter: time.Minute}
	waited := &guard.BusyError{Waited: time.Second, RetryAfter: time.Minute, Err: context.DeadlineExceeded}
	for _, row := range []struct {
		ctx  context.Context
		err  error
		want locking.Outcome
	}{
		{gone, own, locking.Outcome{Kind: locking.Foreign}},
		{gone, lost, locking.Outcome{Kind: locking.Lost, Code: "lock_lost"}},
		{gone, full, locking.Outcome{Kind: locking.Cancelled}},
		{gone, guard.ErrNoGuard, locking.Outcome{Kind: locking.Cancelled}},
		{gone, &guard.StoreError{}, locking.Outcome{Kind: locking.Cancelled}},
		{gone, &guard.KeyError{Err: locking.Invalid("missing")}, locking.Outcome{Kind: locking.Cancelled}},
		{live, &guard.BusyError{Err: lost}, locking.Outcome{Kind: locking.Lost, Code: "lock_lost"}},
		{live, errors.Join(lost, own), locking.Outcome{Kind: locking.Lost, Code: "lock_lost"}},
		{live, &guard.LostError{Cause: guard.ErrMaxHold}, locking.Outcome{Kind: locking.Lost, Code: "lock_max_hold"}},
		{live, guard.ErrBusy, locking.Outcome{Kind: locking.Busy, RetryAfter: time.Second, Code: "lock_busy"}},
		{gone, context.Canceled, locking.Outcome{Kind: locking.Cancelled}},
		{late, context.Canceled, locking.Outcome{Kind: locking.Cancelled}},
		{late, full, locking.Outcome{Kind: locking.Full, RetryAfter: time.Minute, Code: "lock_full"}},
		{late, context.DeadlineExceeded, locking.Outcome{Kind: locking.Deadline, RetryAfter: time.Second, Code: "deadline_exceeded"}},
		{late, lost, locking.Outcome{Kind: locking.Lost, Code: "lock_lost"}},
		{t.Context(), waited, locking.Outcome{Kind: locking.Deadline, RetryAfter: time.Minute, Code: "deadline_exceeded"}},
		{t.Context(), &guard.BusyError{Limit: 3, Err: context.DeadlineExceeded}, locking.Outcome{Kind: locking.Deadline, RetryAfter: time.Second, Code: "deadline_exceeded"}},
		{t.Context(), context.DeadlineExceeded, locking.Outcome{Kind: locking.Foreign}},
		{t.Context(), context.Canceled, locking.Outcome{Kind: locking.Foreign}},
		{t.Context(), &guard.BusyError{Waited: time.Second, RetryAfter: time.Minute, Err: context.Canceled}, locking.Outcome{Kind: locking.Busy, RetryAfter: time.Minute, Code: "canceled"}},
	} {
		assert.Equal(t, row.want, locking.Classify(row.ctx, row.err), "%v: %v", row.ctx.Err(), row.err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errWork = errors.New("work failed")

var adapter = &locking.Adapter[string]{Name: "a", Grammar: locking.Grammar[string]{
	Bare: func(name string) (locking.Extract[string], error) {
		return func(value string) (string, error) { return value, nil }, nil
	},
}}

// bind is a Locker whose key is its source.
func bind(t *testing.T, g *guard.Guard, opts ...guard.LockOption) *locking.Locker[string] {
	t.Helper()
	l, err := adapter.Lock("{key}", opts).Bind(g, 2*time.Second)
	require.NoError(t, err)
	return l
}

// assertLost asserts that err has a loss and the work's own error, and nothing else.
func assertLost(t *testing.T, err, own error) {
	t.Helper()
	var lost *guard.LostError
	require.ErrorAs(t, err, &lost)
	assert.EqualError(t, err, errors.Join(lost, own).Error())
	if own != nil {
		assert.ErrorIs(t, err, own)
	}
}

// loseIn takes the lock of the work of ctx away.
func loseIn(ctx context.Context, t *testing.T, store *guardtest.Store) {
	lease, _ := guard.FromContext(ctx)
	store.Drop(lease.Key())
	require.ErrorIs(t, lease.Check(ctx), guard.ErrLost)
}

func TestLocker_LossUnderWorkThatFailed(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store)
	require.NoError(t, err)
	defer g.Close()
	p := bind(t, g)
	for _, failure := range []error{errWork, nil} {
		own, err := p.Run(t.Context(), "n", "k", func(ctx context.Context) error {
			loseIn(ctx, t, store)
			return failure
		})
		assert.Equal(t, failure, own)
		assertLost(t, err, failure)
	}
}

func TestRunOnce_LossUnderWorkThatFailed(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store)
	require.NoError(t, err)
	defer g.Close()
	l, err := (&locking.Adapter[string]{Name: "a"}).LockFunc(func(key string) (string, error) { return key, nil }, []guard.LockOption{nil}).
		Once(time.Hour, nil).Bind(g, 0)
	require.NoError(t, err)
	for i, row := range []struct {
		failure, own error
		lost         bool
	}{
		{nil, nil, true},
		{errWork, errWork, true},
		{locking.ErrFailed, nil, true},
		{nil, nil, false},
		{errWork, errWork, false},
		{locking.ErrFailed, nil, false},
	} {
		_, _, own, err := locking.RunOnce(t.Context(), l, "n", fmt.Sprint("k", i), func(ctx context.Context) (int, error) {
			if row.lost {
				loseIn(ctx, t, store)
			}
			return 0, row.failure
		})
		assert.Equal(t, row.own, own, i)
		if row.lost {
			assertLost(t, err, own)
		} else {
			assert.NoError(t, err, i)
		}
	}
}

// Work that did not begin leaves no result, and no unknown outcome: not while another key is busy, and not if it says so.
func TestRunOnce_WorkThatDidNotBegin(t *testing.T) {
	t.Parallel()
	g := guardtest.NewMemoryGuard(t)
	l, err := adapter.Lock("once:{key}", nil).And("other").Once(time.Hour, []guard.OnceOption{guard.AtMostOnce()}).Bind(g, 0)
	require.NoError(t, err)
	run := func(failure error) (begun, replayed bool, own, err error) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		_, replayed, own, err = locking.RunOnce(ctx, l, "n", "k", func(context.Context) (int, error) {
			begun = true
			if failure != nil {
				leave()
			}
			return 7, failure
		})
		return begun, replayed, own, err
	}
	other, err := g.Acquire(t.Context(), guard.Key("other"))
	require.NoError(t, err)
	begun, replayed, own, err := run(nil)
	assert.False(t, begun || replayed)
	require.NoError(t, own)
	require.ErrorIs(t, err, guard.ErrBusy)
	require.NoError(t, other.Release(t.Context()))

	begun, replayed, own, err = run(guardhook.ErrNotBegun)
	assert.True(t, begun && !replayed)
	require.ErrorIs(t, own, guardhook.ErrNotBegun)
	require.NoError(t, err)

	for _, first := range []bool{true, false} {
		begun, replayed, own, err = run(nil)
		assert.Equal(t, []bool{first, !first}, []bool{begun, replayed})
		require.NoError(t, errors.Join(own, err))
	}
}

// A Rule that is none stays one, and is refused when it is used. A nil skip skips nothing.
func TestRule_Zero(t *testing.T) {
	t.Parallel()
	_, err := locking.Rule[string]{}.And("order:{id}").Bind(nil, 0)
	require.EqualError(t, err, "no KeyFunc")
	l, err := (&locking.Adapter[string]{Name: "a"}).LockFunc(func(key string) (string, error) { return key, nil }, nil).Unlocked(nil).Bind(nil, 0)
	require.NoError(t, err)
	assert.False(t, l.Skips("k"))
}

// LogLost logs the loss without the work's own error, and no error without a loss.
func TestLogLost(t *testing.T) { //nolint:paralleltest // the logger is of all
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	locking.LogLost(t.Context(), "a", "/r", errWork)
	assert.Empty(t, log.String())
	locking.LogLost(t.Context(), "a", "/r", errors.Join(&guard.LostError{Name: "n"}, errWork))
	assert.Contains(t, log.String(), "route=/r")
	assert.Contains(t, log.String(), "was lost")
	assert.NotContains(t, log.String(), errWork.Error())
}

func TestLocker_HoldsAllKeys(t *testing.T) {
	t.Parallel()
	rule, keys := adapter.Lock("a", nil), []string{"a"}
	for _, key := range []string{"b", "c"} {
		rule, keys = rule.And(key), append(keys, key)
		l, err := rule.Bind(guardtest.NewMemoryGuard(t), 0)
		require.NoError(t, err)
		own, err := l.Run(t.Context(), "n", "", func(ctx context.Context) error {
			for _, key := range keys {
				_, ok := guard.Held(ctx, guard.Key(key))
				assert.True(t, ok, key)
			}
			return errWork
		})
		assert.Same(t, errWork, own)
		assert.NoError(t, err)
	}
	l, err := rule.Bind(nil, 0)
	require.NoError(t, err)
	_, err = l.Run(t.Context(), "n", "", nil)
	assert.ErrorIs(t, err, guard.ErrNoGuard)
}

func TestLocker_LossOfAnotherLockIsTheWorksOwnError(t *testing.T) {
	t.Parallel()
	p := bind(t, guardtest.NewMemoryGuard(t))
	other := &guard.LostError{Name: "other"}
	own, err := p.Run(t.Context(), "n", "k", func(context.Context) error { return other })
	assert.Same(t, other, own)
	assert.NoError(t, err)
}

func TestLocker_Waits(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		guard []guard.Option
		own   []guard.LockOption
		extra []guard.LockOption
		want  time.Duration
	}{
		"default":                      {nil, nil, nil, 2 * time.Second},
		"guard over default":           {[]guard.Option{guard.Wait(3 * time.Second)}, nil, nil, 3 * time.Second},
		"adapter over guard":           {[]guard.Option{guard.Wait(3 * time.Second)}, []guard.LockOption{guard.Wait(4 * time.Second)}, nil, 4 * time.Second},
		"the single call over all":     {nil, []guard.LockOption{guard.NoWait()}, []guard.LockOption{guard.Wait(time.Second)}, time.Second},
		"no wait is a wait of its own": {nil, []guard.LockOption{guard.NoWait()}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guardtest.NewMemoryGuard(t, row.guard...)
				held, err := g.Acquire(t.Context(), guard.Key("k"))
				require.NoError(t, err)
				defer func() { _ = held.Release(t.Context()) }()
				p := bind(t, g, row.own...)
				start := time.Now()
				_, err = p.Run(t.Context(), "n", "k", func(context.Context) error { return nil }, row.extra...)
				var busy *guard.BusyError
				require.ErrorAs(t, err, &busy)
				assert.Equal(t, "n", busy.Name)
				assert.InDelta(t, row.want, time.Since(start), float64(10*time.Millisecond))
			})
		})
	}
}

func TestLocker_GuardComesFromTheContext(t *testing.T) {
	t.Parallel()
	work := func(ctx context.Context) error {
		return guard.WithLock(ctx, guard.Key("inner"), func(ctx context.Context) error {
			_, ok := guard.Held(ctx, guard.Key("inner"))
			assert.True(t, ok)
			return nil
		})
	}
	with := bind(t, guardtest.NewMemoryGuard(t))
	_, err := with.Run(with.Context(t.Context()), "n", "k", work)
	assert.NoError(t, err)

	without := bind(t, nil)
	assert.Equal(t, t.Context(), without.Context(t.Context()))
	_, err = without.Run(t.Context(), "n", "k", work)
	assert.ErrorIs(t, err, guard.ErrNoGuard)
	_, err = without.Run(with.Context(t.Context()), "n", "k", work)
	assert.NoError(t, err)
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	busy := &guard.BusyError{RetryAfter: 3 * time.Second}
	for _, row := range []struct {
		err    error
		want   time.Duration
		passes bool
	}{
		{nil, 0, false},
		{fmt.Errorf("wrapped: %w", busy), 3 * time.Second, true},
		{&guard.LostError{Cause: guard.ErrClosed}, 0, false},
		{&guard.BusyError{Err: &guard.LostError{}}, 0, false},
		{&guard.KeyError{Err: &guard.StoreError{}}, 0, false},
	} {
		got, passes := locking.RetryAfter(row.err)
		assert.Equal(t, row.want, got, "%v", row.err)
		assert.Equal(t, row.passes, passes, "%v", row.err)
	}
}

// Value fills a placeholder; what it returns is escaped, and what it lacks is the client's fault.
func TestRule_Value(t *testing.T) {
	t.Parallel()
	of := func(value string, err error) func(string) (string, error) {
		return func(string) (string, error) { return value, err }
	}
	run := func(value func(string) (string, error)) (key string, err error) {
		l, err := adapter.Lock("order:{tenant}", nil).Value("tenant", value).Bind(guardtest.NewMemoryGuard(t), 0)
		require.NoError(t, err)
		_, err = l.Run(t.Context(), "n", "", func(ctx context.Context) error {
			lease, _ := guard.FromContext(ctx)
			key = lease.Key()
			return nil
		})
		return key, err
	}
	base := adapter.Lock("{a}:{b}", nil).Value("a", of("a", nil))
	assert.Empty(t, base.Value("b", of("b", nil)).Placeholders())
	assert.Equal(t, []string{"b"}, base.Placeholders(), "the Rule itself does not change")

	key, err := run(of("a:b", nil))
	require.NoError(t, err)
	assert.Equal(t, "order:a%3Ab", key)
	_, err = run(of("", nil))
	assert.Equal(t, locking.KeyMissing, locking.Classify(t.Context(), err).Kind)
	_, err = run(of("", errWork))
	assert.ErrorIs(t, err, errWork)
	for problem, rule := range map[string]locking.Rule[string]{
		"Value: no template has the placeholder {tenant}": adapter.Lock("{key}", nil).Value("tenant", of("a", nil)),
		"Value: the function of {tenant} is nil":          adapter.Lock("{tenant}", nil).Value("tenant", nil),
		"65 keys with those of And, the most is 64":       repeated(adapter.Lock("a", nil), 64),
	} {
		_, err := rule.Bind(nil, 0)
		assert.ErrorContains(t, err, problem)
	}
	_, err = repeated(adapter.Lock("a", nil), 63).Bind(nil, 0)
	assert.NoError(t, err)
}

func repeated(rule locking.Rule[string], times int) locking.Rule[string] {
	for range times {
		rule = rule.And("b")
	}
	return rule
}

// Two callers may send the same request, idempotency key included: only a placeholder that names the caller tells them
// apart.
func TestOnce_TheTemplateNamesTheCaller(t *testing.T) {
	t.Parallel()
	extract := func(string) (locking.Extract[string], error) {
		return func(string) (string, error) { return "v", nil }, nil
	}
	callers := &locking.Adapter[string]{Name: "a", Callers: []string{"header", "cookie"}, Grammar: locking.Grammar[string]{
		Kinds: map[string]locking.Bind[string]{"header": extract, "cookie": extract, "path": extract, "query": extract}, Bare: extract,
	}}
	once := func(rule locking.Rule[string]) error {
		_, err := rule.Once(time.Hour, nil).Bind(nil, 0)
		return err
	}
	for template, ok := range map[string]bool{
		"pay:{header:X-Tenant}:{idempotency-key}": true,
		"pay:{cookie:tenant}:{id}":                true,
		"{header:X-Tenant}":                       true,
		"pay:{id}:{idempotency-key}":              false,
		"{method}:{query:v}":                      false,
		"{header:Idempotency-Key}":                false,
		"{header:idempotency-key}:{path:id}":      false,
		"all":                                     false,
	} {
		err := once(callers.Lock(template, nil))
		if ok {
			assert.NoError(t, err, template)
			continue
		}
		assert.ErrorContains(t, err, "the template names no caller", template)
		assert.NoError(t, once(callers.Lock(template, nil).SharedAnswer()), template)
	}
	key := func(string) (string, error) { return "k", nil }
	assert.NoError(t, once(adapter.Lock("all", nil)), "no placeholder of this adapter names a caller")
	assert.NoError(t, once(callers.LockFunc(key, nil)), "a function may name whom it likes")
	assert.NoError(t, once(callers.Lock("{tenant}", nil).Value("tenant", key)))
	assert.Error(t, once(callers.Lock("all", nil).And("{header:X-Tenant}")), "the first key keeps the answer")
}

// Routers write a value of the path as :name, which is text in a template.
func TestRule_Spells(t *testing.T) {
	t.Parallel()
	for template, spells := range map[string]bool{
		"order::id": true, ":id:x": true, "order:id": true, "order:idx": false, "order:{id}": false, "order:id:{id}": false, "order:id:{path:id}": false,
	} {
		a := &locking.Adapter[string]{Grammar: locking.Grammar[string]{
			Kinds: map[string]locking.Bind[string]{"path": adapter.Grammar.Bare}, Bare: adapter.Grammar.Bare,
		}}
		assert.Equal(t, spells, a.Lock(template, nil).Spells("id"), template)
	}
	assert.False(t, adapter.LockFunc(func(string) (string, error) { return ":id", nil }, nil).Spells("id"))
}

func TestAdapter_ParseKey(t *testing.T) {
	t.Parallel()
	_, err := adapter.ParseKey("order:{")
	require.EqualError(t, err, `a: key template "order:{": column 7: '{' without '}'`)
	key, err := adapter.ParseKey("order:{id}")
	require.NoError(t, err)
	got, err := key("7")
	require.NoError(t, err)
	assert.Equal(t, "order:7", got)
}
