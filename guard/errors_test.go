package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestErrors_AreTypedAndTellNothingSecret(t *testing.T) {
	cause := errors.New("cause")
	type errs = []error
	for _, c := range []struct {
		err        error
		kind, text string
		is         errs
	}{
		{&guard.BusyError{Key: "secret", Holder: "secret"}, "lock_busy", `lock is busy`, errs{guard.ErrBusy}},
		{&guard.BusyError{Name: "n", Waited: time.Second}, "lock_wait_timeout", `lock "n" is busy, waited 1s`, errs{guard.ErrBusy}},
		{&guard.BusyError{Waited: time.Second, Limit: 3}, "lock_full", `lock is busy, waited 1s`, errs{guard.ErrBusy}},
		{&guard.BusyError{Waited: time.Second, HeldOver: true}, "lock_held_over", `lock is kept after its work: its MinHold has not passed`, errs{guard.ErrBusy}},
		{&guard.BusyError{Name: "n", Err: context.Canceled}, "canceled", `lock "n" is busy, gave up after 0s: context canceled`, errs{guard.ErrBusy, context.Canceled}},
		{&guard.BusyError{Err: context.DeadlineExceeded}, "deadline_exceeded", `lock is busy, gave up after 0s: context deadline exceeded`, errs{guard.ErrBusy, context.DeadlineExceeded}},
		{&guard.LostError{Key: "secret", Cause: cause}, "lock_lost", `lock was lost: cause`, errs{guard.ErrLost, cause}},
		{&guard.LostError{Cause: guard.ErrMaxHold}, "lock_max_hold", `lock was lost: guard: MaxHold is used up`, errs{guard.ErrLost, guard.ErrMaxHold}},
		{&guard.LostError{Name: "n", Cause: guard.ErrReleased}, "lock_released", `lock "n" was released`, errs{guard.ErrLost, guard.ErrReleased}},
		{&guard.LostError{Cause: guard.ErrRevoked}, "lock_revoked", `lock was lost: guard: lock was revoked`, errs{guard.ErrLost, guard.ErrRevoked}},
		{&guard.LostError{Cause: guard.ErrClosed}, "lock_lost", `lock was lost: guard: closed`, errs{guard.ErrLost, guard.ErrClosed}},
		{&guard.StoreError{Op: "renew", Name: "n", Key: "secret", Err: cause}, "lock_store_unavailable", `lock store is unavailable: renew of lock "n": cause`, errs{guard.ErrStore, cause}},
		{&guard.StoreError{Op: "ping", Err: cause}, "lock_store_unavailable", `lock store is unavailable: ping: cause`, errs{guard.ErrStore, cause}},
		{&guard.KeyError{Key: "secret", Reason: "empty", Err: cause}, "lock_key_invalid", `invalid lock key: empty: cause`, errs{guard.ErrKey, cause}},
		{&guard.OnceError{Name: "n", Key: "secret", Err: guard.ErrOtherInput}, "idempotency_key_reused", `once "n": the key was used with another input`, errs{guard.ErrOtherInput}},
		{&guard.OnceError{Err: guard.ErrUnknownOutcome}, "idempotency_outcome_unknown", `once: an earlier call began, and its outcome is not known`, errs{guard.ErrUnknownOutcome}},
		{&guard.OptionError{Option: "TTL", Reason: "is bad"}, "option_invalid", `TTL is bad`, errs{guard.ErrOption}},
		{guard.ErrBusy, "lock_busy", `lock is busy`, nil},
		{guard.ErrClosed, "shutting_down", `closed`, nil},
	} {
		assert.Equal(t, c.kind, c.err.(interface{ ErrorType() string }).ErrorType())
		assert.Equal(t, "guard: "+c.text, c.err.Error())
		for _, target := range append(c.is, guard.ErrBusy, guard.ErrLost, guard.ErrStore, guard.ErrKey, guard.ErrOption, cause) {
			assert.Equal(t, slices.Contains(append(c.is, c.err), target), errors.Is(c.err, target), "%v is %v", c.err, target)
		}
	}
}

func TestEventKind_Texts(t *testing.T) {
	var texts []string
	for k := guard.EventRenewal; k <= guard.EventNotKept+1; k++ {
		texts = append(texts, k.String())
	}
	assert.Equal(t, strings.Fields("renewal handover loss release_failure store_failure failed_open replayed other_input unknown_outcome not_kept unknown"), texts)
}

// %+v adds the key, and a log line has the fields of an error.
func TestErrors_ShowTheKeyWhenAskedFor(t *testing.T) {
	for want, err := range map[string]error{
		`err.type=lock_wait_timeout err.lock=n err.waited=1s err.retry_after=2s`: &guard.BusyError{Name: "n", Key: "secret", Holder: "secret", Waited: time.Second, RetryAfter: 2 * time.Second},
		`err.type=lock_max_hold`:                                  &guard.LostError{Key: "secret", Cause: guard.ErrMaxHold},
		`err.type=lock_store_unavailable err.lock=n err.op=renew`: &guard.StoreError{Op: "renew", Name: "n", Key: "secret", Err: errors.New("cause")},
		`err.type=lock_key_invalid`:                               &guard.KeyError{Key: "secret", Reason: "too long"},
		`err.type=idempotency_result_not_kept err.lock=n`:         &guard.OnceError{Name: "n", Key: "secret", Err: guard.ErrNotKept},
	} {
		assert.Equal(t, err.Error()+` (key "secret")`, fmt.Sprintf("%+v", err))
		for _, format := range []string{"%v", "%s", "%q", "%#v", "%x", "%+s", "%+q"} {
			assert.Equal(t, fmt.Sprintf(format, err.Error()), fmt.Sprintf(format, err))
		}
		var line strings.Builder
		slog.New(slog.NewTextHandler(&line, nil)).Info("x", "err", err)
		assert.Contains(t, line.String(), fmt.Sprintf("err.msg=%q %s\n", err.Error(), want))
		assert.NotContains(t, line.String(), "secret")
	}
	assert.Equal(t, "guard: invalid lock key: empty", fmt.Sprintf("%+v", &guard.KeyError{Reason: "empty"}))
}

func TestName_ErrorsNameTheLockByTheFormatOfItsKey(t *testing.T) {
	calls := 0
	wrapped := func(ctx context.Context) (string, error) { calls++; return guard.Keyf("order:%d", 42)(ctx) }
	for _, c := range []struct {
		key  guard.KeyFunc
		want string
	}{
		{guard.Keyf("order:%d", 42), "order:*"},
		{guard.Keyf("t:%s:order:%d", "secret", 42), "t:*:order:*"},
		{guard.Stripe(4, guard.Keyf("user:%s", "secret")), "user:*"},
		{guard.Stripe(2, guard.Stripe(4, guard.Keyf("u:%s", "secret"))), "u:*"},
		{guard.Key("order:42"), ""},
		{guard.Stripe(4, guard.Key("order:42")), ""},
		{guard.Keyf("order:42"), ""},
		{wrapped, ""},
		{guard.Stripe(4, wrapped), ""},
	} {
		bubble(t, func(t *testing.T, g *env) {
			calls = 0
			require.NoError(t, g.WithLock(t.Context(), c.key, func(context.Context) error {
				assert.LessOrEqual(t, calls, 1, "a key is not asked for its name")
				busy := as[*guard.BusyError](t, g.WithLocks(t.Context(), []guard.KeyFunc{c.key}, nothing, guard.NoWait()))
				assert.Equal(t, c.want, busy.Name)
				return nil
			}))
		})
	}
}

func TestName_LossesAndFailuresNameTheLockByItsFormat(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		l, err := g.Acquire(t.Context(), guard.Keyf("order:%d", 42))
		require.NoError(t, err)
		g.s.Drop("order:42")
		require.ErrorContains(t, l.Check(t.Context()), `guard: lock "order:*" was lost: `)

		keys := []guard.KeyFunc{guard.Keyf("stock:%s", "a"), guard.Keyf("o:%d", 1), guard.Key("z"), guard.Keyf("%s:1", "o")}
		require.NoError(t, g.WithLocks(t.Context(), keys, func(context.Context) error {
			require.EqualError(t, g.WithLocks(t.Context(), keys[:2], never(t), guard.NoWait()), `guard: lock "o:*" is busy`)
			return nil
		}))
		names := ""
		for _, o := range g.r.Observations("HoldStart", "HoldEnd") {
			names += o.Lock.Name + " "
		}
		assert.Equal(t, "order:* order:* o:* stock:*   stock:* o:* ", names)

		g.s.Fail(&guardstore.RefusedError{Err: errors.New("OOM")})
		_, err = g.Acquire(t.Context(), guard.Keyf("stock:%s", "secret"))
		require.EqualError(t, err, `guard: lock store is unavailable: acquire of lock "stock:*": OOM`)
		err = g.WithLocks(t.Context(), []guard.KeyFunc{guard.Keyf("both:%s", "secret"), guard.Keyf("both:%s", "x")}, never(t))
		require.EqualError(t, err, `guard: lock store is unavailable: acquire of lock "both:*": OOM`)
		require.EqualError(t, g.Ping(t.Context()), "guard: lock store is unavailable: ping: OOM")
	})
}

const (
	secretKey  = "iban:DE02120300000000202051"
	secretMeta = "teller-4711"
)

// eavesdropper reads the texts of all errors: those of calls, and those that observers get.
type eavesdropper struct {
	*testing.T
	heard   guardtest.Recorder
	errs    []error
	secrets []string
}

func newEavesdropper(t *testing.T) *eavesdropper {
	e := &eavesdropper{T: t, secrets: []string{secretKey, secretMeta}}
	t.Cleanup(func() {
		for _, o := range e.heard.Observations() {
			e.errs = append(e.errs, o.Wait.Err, o.Hold.Err, o.Event.Err)
		}
		text := errors.Join(e.errs...).Error()
		for _, secret := range e.secrets {
			assert.NotContains(t, text, secret)
		}
	})
	return e
}

// options are those of Guards that it listens to.
func (e *eavesdropper) options(opts ...guard.Option) []guard.Option {
	return append(opts, guard.Observe(&e.heard), guard.Metadata(secretMeta), guard.StoreTimeout(500*time.Millisecond))
}

// take holds the key; its owner is a secret.
func (e *eavesdropper) take(g *guard.Guard, opts ...guard.LockOption) *guard.Lease {
	l, err := g.Acquire(e.Context(), guard.Key(secretKey), opts...)
	require.NoError(e, err)
	owner := testenv.Owner(l)
	instance, _, _ := strings.Cut(owner, "-")
	e.secrets = append(e.secrets, owner, instance)
	return l
}

// fails has a call fail.
func (e *eavesdropper) fails(want error, g *guard.Guard, key guard.KeyFunc, opts ...guard.LockOption) {
	err := g.WithLock(e.Context(), key, nothing, opts...)
	require.ErrorIs(e, err, want)
	e.errs = append(e.errs, err)
}

func TestSecret_ErrorsTellNothingSecret(t *testing.T) {
	t.Parallel()
	key := guard.Key(secretKey)
	for name, how := range map[string]func(e *eavesdropper, s *redistest.Server, g *guard.Guard){
		"Redis is gone": func(e *eavesdropper, s *redistest.Server, g *guard.Guard) {
			s.Kill()
			e.fails(guard.ErrStore, g, key)
		},
		"a queue of another type": func(e *eavesdropper, s *redistest.Server, g *guard.Guard) {
			e.take(g)
			require.NoError(e, s.Client(e).Set(e.Context(), testenv.LockOf(secretKey)+":queue", secretMeta, 0).Err())
			e.fails(guard.ErrStore, testenv.GuardOn(e.T, s.Client(e), e.options()...), key)
		},
		"no right to the key": func(e *eavesdropper, s *redistest.Server, _ *guard.Guard) {
			require.NoError(e, s.Client(e).Do(e.Context(), "acl", "setuser", "redlatch", "on", ">PASSWORD", "~other", "+@all").Err())
			e.fails(guard.ErrStore, testenv.GuardOn(e.T, s.Client(e, login), e.options()...), key)
		},
		"another password": func(e *eavesdropper, s *redistest.Server, _ *guard.Guard) {
			e.secrets = append(e.secrets, "PASSWORD")
			e.fails(guard.ErrStore, testenv.GuardOn(e.T, s.Client(e, login), e.options()...), key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e := redistest.Start(t), newEavesdropper(t)
			how(e, s, testenv.GuardOn(t, s.Client(t), e.options()...))
		})
	}
}

func TestSecret_ErrorsOfAQuorumTellNothingSecret(t *testing.T) {
	t.Parallel()
	q, e := testenv.NewQuorumEnv(t, 3), newEavesdropper(t)
	g, other := q.Guard(t, e.options()...), q.Guard(t, e.options()...)
	l := e.take(g, guard.TTL(time.Second))
	e.fails(guard.ErrBusy, other, guard.Key(secretKey), guard.Wait(100*time.Millisecond))
	q.Servers[0].Kill()
	q.Servers[1].Kill()
	testenv.Await(t, l.Context().Done())
	require.ErrorIs(t, l.Err(), guard.ErrLost)
	e.errs = append(e.errs, l.Err())
	e.fails(guard.ErrStore, other, guard.Key(secretKey))
}
