package guard_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Two Guards, 200 goroutines each, five keys, two seconds. In the end all callers leave
// at once, at whatever step they are.
func TestContention_OnlyOneIsInside(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	sections := make([]testenv.Section, 5)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var workers sync.WaitGroup
	guards := make([]*guard.Guard, 2)
	for i := range guards {
		g, err := guard.New(s.Client(t), guard.TTL(3*time.Second))
		require.NoError(t, err)
		guards[i] = g
		for w := range 200 {
			workers.Go(func() {
				for n := w; ctx.Err() == nil; n++ {
					key := n % len(sections)
					err := g.WithLock(ctx, guard.Keyf("%d", key), func(ctx context.Context) error {
						sections[key].Visit(ctx, t)
						return nil
					})
					if ctx.Err() == nil {
						assert.NoError(t, err)
					} else if err != nil {
						assert.ErrorIs(t, err, context.DeadlineExceeded)
					}
				}
			})
		}
	}
	workers.Wait()
	for _, g := range guards {
		require.NoError(t, g.Close()) // which waits for what is given back behind the callers
	}
	for key := range sections {
		t.Logf("key %d: %d visits", key, sections[key].Visits.Load())
		assert.Positive(t, sections[key].Visits.Load())
		lock := testenv.LockOf(strconv.Itoa(key))
		assert.Zero(t, direct.Exists(t.Context(), lock).Val())
		assert.Zero(t, direct.ZCount(t.Context(), lock+":queue", "0", "+inf").Val())
	}
}

// Goroutines under one context share what it holds, and nothing else.
func TestContention_SiblingsContendForWhatTheirParentDoesNotHold(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	parents, other := guard.Keyf("%s parent's", t.Name()), guard.Keyf("%s other", t.Name())
	err := r.WithLock(t.Context(), parents, func(ctx context.Context) error {
		var alone testenv.Section
		var siblings sync.WaitGroup
		for range 4 {
			siblings.Go(func() {
				for range 10 {
					assert.NoError(t, r.WithLock(ctx, other, func(ctx context.Context) error {
						alone.Visit(ctx, t)
						return nil
					}))
				}
			})
		}
		siblings.Wait()
		assert.EqualValues(t, 40, alone.Visits.Load())
		return ctx.Err()
	})
	require.NoError(t, err)
}

func TestContention_ChildrenAreInsideTogetherWithTheirParent(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	key := guard.Key(t.Name())
	err := r.WithLock(t.Context(), key, func(ctx context.Context) error {
		var inside, children sync.WaitGroup
		inside.Add(2)
		for range 2 {
			children.Go(func() {
				assert.NoError(t, r.WithLock(ctx, key, func(context.Context) error {
					inside.Done()
					inside.Wait() // for the other one: both are inside
					return nil
				}))
			})
		}
		children.Wait()
		assert.Equal(t, "1", r.Depth(t, t.Name()))
		return ctx.Err()
	})
	require.NoError(t, err)
	assert.Empty(t, r.Hash(t, t.Name()))
}

func TestContention_TheHashShowsOwnerAndDepth(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := testenv.NewOn(t, s, nil, s.Client(t), guard.Instance(""))
	key := guard.Key("order:42")
	show := func() map[string]string { return r.Direct.HGetAll(t.Context(), "guard:{order:42}").Val() }
	err := r.WithLock(t.Context(), key, func(ctx context.Context) error {
		l, held := guard.Held(ctx, "order:42")
		require.True(t, held)
		assert.Regexp(t, "^1 ", show()[l.Owner()])
		err := r.WithLock(ctx, key, func(ctx context.Context) error {
			inner, _ := guard.FromContext(ctx)
			assert.Equal(t, l.Owner(), inner.Owner())
			assert.Regexp(t, "^2 ", show()[l.Owner()])
			return nil
		})
		require.NoError(t, err)
		assert.Regexp(t, "^1 ", show()[l.Owner()])
		return nil
	})
	require.NoError(t, err)
	assert.Empty(t, show())
	keys, err := r.Direct.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	assert.Equal(t, []string{"guard:{order:42}:last"}, keys)
}
