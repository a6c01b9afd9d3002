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

func transfers(g *guard.Guard) asynq.MiddlewareFunc {
	return guardasynq.Annotate(g, guardasynq.Tasks{"transfer": guardasynq.Lock("account:{from}").And("account:{to}")})
}

func transfer(ctx context.Context, mw asynq.MiddlewareFunc, payload string, work asynq.HandlerFunc) error {
	return mw(work).ProcessTask(ctx, asynq.NewTask("transfer", []byte(payload)))
}

func TestAnd(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	mw := transfers(g)
	assert.Same(t, errOwn, transfer(t.Context(), mw, `{"from":8,"to":7}`, func(ctx context.Context, _ *asynq.Task) error {
		for _, key := range []string{"account:7", "account:8"} {
			_, ok := guard.Held(ctx, key)
			assert.True(t, ok, key)
		}
		return errOwn
	}))

	lease, err := g.Acquire(t.Context(), guard.Key("account:8"))
	assert.NoError(t, err)
	err = transfer(t.Context(), mw, `{"from":8,"to":7}`, func(context.Context, *asynq.Task) error { t.Error("ran"); return nil })
	assert.ErrorIs(t, err, guard.ErrBusy)
	release(t, lease)

	err = transfer(t.Context(), mw, `{"from":8}`, func(context.Context, *asynq.Task) error { t.Error("ran"); return nil })
	assert.ErrorIs(t, err, guard.ErrKey)
	assert.ErrorIs(t, err, asynq.SkipRetry)

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
	assert.Equal(t, map[int]int{7: 100, 8: 100}, balance)
}

func TestAnd_MisuseOfAndIsRefused(t *testing.T) {
	t.Parallel()
	assert.Panics(t, func() { guardasynq.Lock("a").And("b:{") })
	rule := guardasynq.Lock("a")
	for range guard.MaxLocks {
		rule = rule.And("b")
	}
	assert.PanicsWithValue(t, `guardasynq: row "t": 65 keys with those of And, the most is 64`, func() {
		guardasynq.Annotate(guardtest.NewGuard(t), guardasynq.Tasks{"t": rule})
	})
}
