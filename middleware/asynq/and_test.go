package guardasynq_test

import (
	"context"
	"sync"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// transfers are both ways to give a task several keys.
func transfers(g *guard.Guard) map[string]asynq.MiddlewareFunc {
	return map[string]asynq.MiddlewareFunc{
		"of a Rule": guardasynq.Annotate(g, guardasynq.Tasks{
			"transfer": guardasynq.Lock("account:{from}").And("account:{to}"),
		}),
		"of key functions": guardasynq.Middleware(g, guardasynq.Key("account:{from}"),
			guardasynq.And(guardasynq.Key("account:{to}"))),
	}
}

func transfer(ctx context.Context, mw asynq.MiddlewareFunc, payload string, work asynq.HandlerFunc) error {
	return mw(work).ProcessTask(ctx, asynq.NewTask("transfer", []byte(payload)))
}

func TestAnd(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	for name, mw := range transfers(g) {
		assert.Same(t, errOwn, transfer(t.Context(), mw, `{"from":8,"to":7}`, func(ctx context.Context, _ *asynq.Task) error {
			for _, key := range []string{"account:7", "account:8"} {
				_, ok := guard.Held(ctx, key)
				assert.True(t, ok, "%s: %s", name, key)
			}
			return errOwn
		}), name)

		lease, err := g.Acquire(t.Context(), guard.Key("account:8"))
		assert.NoError(t, err)
		err = transfer(t.Context(), mw, `{"from":8,"to":7}`, func(context.Context, *asynq.Task) error { t.Error("ran"); return nil })
		assert.ErrorIs(t, err, guard.ErrBusy, name)
		release(t, lease)

		err = transfer(t.Context(), mw, `{"from":8}`, func(context.Context, *asynq.Task) error { t.Error("ran"); return nil })
		assert.ErrorIs(t, err, guard.ErrKey, name)
		assert.ErrorIs(t, err, asynq.SkipRetry, name)

		balance := map[int]int{7: 100, 8: 100}
		var all sync.WaitGroup
		for i := range 100 {
			payload, from, to := `{"from":8,"to":7}`, 8, 7
			if i%2 == 0 {
				payload, from, to = `{"from":7,"to":8}`, 7, 8
			}
			all.Go(func() {
				assert.NoError(t, transfer(t.Context(), mw, payload, func(context.Context, *asynq.Task) error {
					balance[from], balance[to] = balance[from]-1, balance[to]+1
					return nil
				}))
			})
		}
		all.Wait()
		assert.Equal(t, map[int]int{7: 100, 8: 100}, balance, name)
	}
}

func TestKeysOfSeveralAndsAddUp(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	for name, mw := range map[string]asynq.MiddlewareFunc{
		"of a Rule": guardasynq.Annotate(g, guardasynq.Tasks{
			"transfer": guardasynq.Lock("account:{from}").And("account:{to}").And("tenant:{of}"),
		}),
		"of key functions": guardasynq.Middleware(g, guardasynq.Key("account:{from}"),
			guardasynq.And(guardasynq.Key("account:{to}")), guardasynq.And(guardasynq.Key("tenant:{of}"))),
	} {
		assert.NoError(t, transfer(t.Context(), mw, `{"from":8,"to":7,"of":1}`, func(ctx context.Context, _ *asynq.Task) error {
			for _, key := range []string{"account:7", "account:8", "tenant:1"} {
				_, ok := guard.Held(ctx, key)
				assert.True(t, ok, "%s: %s", name, key)
			}
			return nil
		}), name)
	}
}

func TestAndIsChecked(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	key := guardasynq.Key("k")
	assert.PanicsWithValue(t, "guardasynq: no KeyFunc at index 0 of And", func() { guardasynq.Middleware(g, key, guardasynq.And(nil)) })
	assert.PanicsWithValue(t, `guardasynq: row "t": no KeyFunc at index 0 of And`, func() {
		guardasynq.Annotate(g, guardasynq.Tasks{"t": guardasynq.Lock("a").With(guardasynq.And(nil))})
	})
	assert.Panics(t, func() { guardasynq.Lock("a").And("b:{") })
	one := guardasynq.Lock("a")
	_ = one.And("b")
	assert.Len(t, one.Options, 1, "the rule itself stays as it is")
}
