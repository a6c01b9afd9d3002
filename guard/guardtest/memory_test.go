package guardtest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardstore/storetest"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestContract_MemoryStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	store := func(testing.TB) guardstore.Store { return guardtest.NewStore() }
	storetest.TestStore(t, store)
	storetest.TestQueue(t, store)
	storetest.TestLimits(t, store)
	storetest.TestRecords(t, store)
}

func TestMemoryGuard_OutageAndLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, key := guardtest.NewMemoryGuard(t), guard.Keyf("order:%s", "a:b")
		lock := func(work func(context.Context)) error {
			return g.WithLock(t.Context(), key, func(ctx context.Context) error {
				work(ctx)
				return nil
			})
		}
		down := errors.New("down")
		guardtest.Outage(t, g, down)
		begun := time.Now()
		err := lock(func(context.Context) { t.Error("worked in an outage") })
		require.ErrorIs(t, err, guard.ErrStore)
		require.ErrorIs(t, err, down)
		assert.Equal(t, 2*time.Second, time.Since(begun))
		guardtest.Outage(t, g, nil)
		require.ErrorIs(t, lock(func(ctx context.Context) {
			guardtest.Lose(t, g, key)
			<-ctx.Done()
		}), guard.ErrLost)
	})
}

// fatal is a testing.TB whose Fatal ends the goroutine and fails no test.
type fatal struct {
	testing.TB
	text string
}

func (f *fatal) Helper() {}

func (f *fatal) Fatal(args ...any) {
	f.text = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *fatal) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

func TestMemoryGuard_LoseNeedsAGuardOfThisPackage(t *testing.T) {
	t.Parallel()
	own, memory := guardtest.NewRedisGuard(t), guardtest.NewMemoryGuard(t)
	for want, do := range map[string]func(tb testing.TB){
		"not from NewMemoryGuard": func(tb testing.TB) { guardtest.Lose(tb, own, guard.Key("k")) },
		"or its test has ended":   func(tb testing.TB) { guardtest.Outage(tb, own, nil) },
		"no key": func(tb testing.TB) {
			guardtest.Lose(tb, memory, func(context.Context) (string, error) { return "", errors.New("no key") })
		},
	} {
		f, ended := &fatal{TB: t}, make(chan struct{})
		go func() {
			defer close(ended)
			do(f)
		}()
		<-ended
		assert.Contains(t, f.text, want)
	}
}
