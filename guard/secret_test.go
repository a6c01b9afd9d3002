package guard_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	secretKey  = "iban:DE02120300000000202051"
	secretMeta = "teller-4711"
)

// eavesdropper reads the texts of all errors: those of calls and those that observers get.
type eavesdropper struct {
	guard.NopObserver
	mu      sync.Mutex
	texts   []string
	secrets []string
}

func (e *eavesdropper) hear(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.texts = append(e.texts, err.Error())
	}
}

// knows adds the owner of a lease to what must not be heard.
func (e *eavesdropper) knows(l *guard.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	instance, _, _ := strings.Cut(l.Owner(), "-")
	e.secrets = append(e.secrets, l.Owner(), instance)
}

// WaitEnd implements guard.Observer.
func (e *eavesdropper) WaitEnd(_ context.Context, _ guard.Lock, r guard.WaitResult) { e.hear(r.Err) }

// HoldEnd implements guard.Observer.
func (e *eavesdropper) HoldEnd(_ context.Context, _ guard.Lock, r guard.HoldResult) { e.hear(r.Err) }

// Event implements guard.Observer.
func (e *eavesdropper) Event(_ context.Context, _ guard.Lock, ev guard.Event) { e.hear(ev.Err) }

// provocation is what makes a Guard on a server of its own fail in one way.
type provocation func(t *testing.T, s *redistest.Server, g *guard.Guard, e *eavesdropper) error

func locked(t *testing.T, g *guard.Guard, e *eavesdropper, opts ...guard.LockOption) *guard.Lease {
	t.Helper()
	l, err := g.Acquire(t.Context(), guard.Key(secretKey), opts...)
	require.NoError(t, err)
	e.knows(l)
	return l
}

// over waits for the end of a lease.
func over(t *testing.T, l *guard.Lease) error {
	t.Helper()
	testenv.Await(t, l.Context().Done())
	return l.Err()
}

var provocations = map[string]struct {
	want error
	how  provocation
}{
	"waited in vain": {guard.ErrBusy, func(t *testing.T, s *redistest.Server, g *guard.Guard, e *eavesdropper) error {
		locked(t, g, e)
		return testenv.GuardOn(t, s.Client(t), guard.Observe(e)).
			WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing, guard.Wait(100*time.Millisecond))
	}},
	"Redis is gone": {guard.ErrStore, func(t *testing.T, s *redistest.Server, g *guard.Guard, _ *eavesdropper) error {
		s.Kill()
		return g.WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing)
	}},
	"Redis is silent": {guard.ErrStore, func(t *testing.T, s *redistest.Server, g *guard.Guard, _ *eavesdropper) error {
		require.NoError(t, s.Pause())
		return g.WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing)
	}},
	"a key of another type": {guard.ErrBusy, func(t *testing.T, s *redistest.Server, g *guard.Guard, _ *eavesdropper) error {
		require.NoError(t, s.Client(t).Set(t.Context(), testenv.LockOf(secretKey), "x", 0).Err())
		return g.WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing, guard.NoWait())
	}},
	"a queue of another type": {guard.ErrStore, func(t *testing.T, s *redistest.Server, g *guard.Guard, e *eavesdropper) error {
		locked(t, g, e)
		require.NoError(t, s.Client(t).Set(t.Context(), testenv.LockOf(secretKey)+":queue", secretMeta, 0).Err())
		return testenv.GuardOn(t, s.Client(t), guard.Observe(e)).WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing)
	}},
	"no memory": {guard.ErrStore, func(t *testing.T, s *redistest.Server, g *guard.Guard, _ *eavesdropper) error {
		require.NoError(t, s.Client(t).ConfigSet(t.Context(), "maxmemory", "1").Err())
		return g.WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing)
	}},
	"no right to the key": {guard.ErrStore, func(t *testing.T, s *redistest.Server, _ *guard.Guard, e *eavesdropper) error {
		require.NoError(t, s.Client(t).Do(t.Context(), "acl", "setuser", "u", "on", ">pw", "~other", "+@all").Err())
		rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "u", "pw" })
		return testenv.GuardOn(t, rdb, guard.Observe(e), guard.Metadata(secretMeta)).WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing)
	}},
	"another password": {guard.ErrStore, func(t *testing.T, s *redistest.Server, _ *guard.Guard, e *eavesdropper) error {
		e.secrets = append(e.secrets, "not-the-password")
		rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "u", "not-the-password" })
		g := testenv.GuardOn(t, rdb, guard.Observe(e), guard.StoreTimeout(500*time.Millisecond))
		return g.WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing)
	}},
	"too long a key": {guard.ErrKey, func(t *testing.T, _ *redistest.Server, g *guard.Guard, _ *eavesdropper) error {
		return g.WithLock(t.Context(), guard.Key(strings.Repeat(secretKey, 50)), testenv.Nothing)
	}},
	"a key that is no text": {guard.ErrKey, func(t *testing.T, _ *redistest.Server, g *guard.Guard, _ *eavesdropper) error {
		return g.WithLock(t.Context(), guard.Key(secretKey+"\xff"), testenv.Nothing)
	}},
	"a key that does not fit its format": {guard.ErrKey, func(t *testing.T, _ *redistest.Server, g *guard.Guard, _ *eavesdropper) error {
		return g.WithLock(t.Context(), guard.Keyf("order:%d", secretKey), testenv.Nothing)
	}},
	"too few replicas": {guard.ErrStore, func(t *testing.T, s *redistest.Server, _ *guard.Guard, e *eavesdropper) error {
		g := testenv.GuardOn(t, s.Client(t), guard.Replicas(1, 50*time.Millisecond), guard.StoreTimeout(500*time.Millisecond),
			guard.Observe(e), guard.Metadata(secretMeta))
		return g.WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing)
	}},
}

func TestSecret_ErrorsTellNothingSecret(t *testing.T) {
	t.Parallel()
	for name, p := range provocations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e := redistest.Start(t), &eavesdropper{secrets: []string{secretKey, secretMeta}}
			g := testenv.GuardOn(t, s.Client(t), guard.Observe(e), guard.Metadata(secretMeta), guard.StoreTimeout(500*time.Millisecond))
			err := p.how(t, s, g, e)
			require.ErrorIs(t, err, p.want)
			e.hear(err)
			e.tellsNothing(t)
		})
	}
}

func TestSecret_ErrorsOfAQuorumTellNothingSecret(t *testing.T) {
	t.Parallel()
	q, e := testenv.NewQuorumEnv(t, 3), &eavesdropper{secrets: []string{secretKey, secretMeta}}
	opts := []guard.Option{guard.Observe(e), guard.Metadata(secretMeta), guard.StoreTimeout(500 * time.Millisecond)}
	g, other := q.Guard(t, opts...), q.Guard(t, opts...)
	l := locked(t, g, e, guard.TTL(time.Second))
	err := other.WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing, guard.Wait(100*time.Millisecond))
	require.ErrorIs(t, err, guard.ErrBusy)
	e.hear(err)
	q.Servers[0].Kill()
	q.Servers[1].Kill()
	require.ErrorIs(t, over(t, l), guard.ErrLost)
	err = errors.Join(l.Err(), other.WithLock(t.Context(), guard.Key(secretKey), testenv.Nothing))
	require.ErrorIs(t, err, guard.ErrStore)
	e.hear(err)
	e.tellsNothing(t)
}

func (e *eavesdropper) tellsNothing(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	require.NotEmpty(t, e.texts)
	for _, text := range e.texts {
		for _, secret := range e.secrets {
			assert.NotContains(t, text, secret)
		}
	}
}
