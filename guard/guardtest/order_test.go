package guardtest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// nest takes locks under each other: the key of each begins with its Name, if it has one.
func nest(t *testing.T, ctx context.Context, g *guard.Guard, locks ...string) {
	t.Helper()
	if len(locks) == 0 {
		return
	}
	var opts []guard.LockOption
	if name, _, named := strings.Cut(locks[0], "/"); named {
		opts = append(opts, guard.Name(name))
	}
	switch {
	case strings.HasSuffix(locks[0], "(3)"):
		opts = append(opts, guard.Limit(3))
	case strings.HasSuffix(locks[0], "(shared)"):
		opts = append(opts, guard.Shared())
	}
	require.NoError(t, g.WithLock(ctx, guard.Key(locks[0]), func(ctx context.Context) error {
		nest(t, ctx, g, locks[1:]...)
		return nil
	}, opts...))
}

func TestOrder_FindsLocksThatAreNestedInTwoOrders(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		nested []string
		fails  int
		says   []string
	}{
		"one order":              {[]string{"order/1 account/1", "order/2 account/1 log/x", "order/1 log/x"}, 0, nil},
		"two names":              {[]string{"order/1 account/1", "account/2 order/2"}, 1, []string{`lock "account", and under it lock "order"`, `lock "order", and under it lock "account"`}},
		"two names, twice":       {[]string{"order/1 account/1", "account/2 order/2", "account/2 order/2"}, 1, nil},
		"not the innermost":      {[]string{"order/1 log/1 account/1", "account/2 order/2"}, 1, nil},
		"two keys of one name":   {[]string{"account/a account/b", "account/b account/a"}, 1, []string{`lock "account" with key "account/b", and under it lock "account" with key "account/a"`}},
		"keys of one name":       {[]string{"account/a account/b", "account/b account/c", "account/a account/c"}, 0, nil},
		"a circle of names":      {[]string{"a/1 b/1", "b/2 c/2", "c/3 a/3"}, 1, []string{`lock "c", and under it lock "a"`, `lock "a", and under it lock "b"`, `lock "b", and under it lock "c"`}},
		"a circle of keys":       {[]string{"n/a n/b", "n/b n/c", "n/c n/a"}, 1, nil},
		"without names":          {[]string{"a b", "b a"}, 1, []string{`lock with key "b"`}},
		"without names, ordered": {[]string{"tenant:1 order/1", "order/1 config"}, 0, nil},
		"a circle through both":  {[]string{"tenant:1 order/1", "order/1 config", "config tenant:1"}, 1, nil},
		"re-entry":               {[]string{"a/1 b/1 a/1", "a/1 a/1"}, 0, nil},
		"under a permit":         {[]string{"export/1(3) order/1", "order/2 export/2(3)"}, 1, []string{`lock "order", and under it lock "export"`}},
		"under a reader":         {[]string{"rates/1(shared) order/1 log/1", "log/2 rates/2(shared)"}, 1, nil},
		"re-entry of a permit":   {[]string{"a/1(3) b/1 a/1(3)", "a/1(shared) a/1(shared)", "a(3) a(3)"}, 0, nil},
		"under a kept reader":    {[]string{"a/1(shared) b/1", "a/1 b/1"}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tb := &faults{TB: t}
			o := guardtest.Order(tb)
			for _, locks := range row.nested { // each on a Guard of its own
				nest(t, t.Context(), guardtest.NewMemoryGuard(t, guard.Observe(o)), strings.Fields(locks)...)
			}
			require.Len(t, tb.all, row.fails)
			for _, said := range tb.all {
				for _, text := range append(row.says, "order_test.go:") {
					assert.Contains(t, said, text)
				}
			}
		})
	}
}

// What does not run under a lock is not nested in it, nor are the keys of WithLocks.
func TestOrder_CountsLocksThatAreHeldOnly(t *testing.T) {
	t.Parallel()
	tb := &faults{TB: t}
	g := guardtest.NewMemoryGuard(t, guard.Observe(guardtest.Order(tb)))
	nest(t, t.Context(), g, "order/1", "account/1")
	for _, keys := range [][]guard.KeyFunc{{guard.Key("a"), guard.Key("b")}, {guard.Key("b"), guard.Key("a")}} {
		require.NoError(t, g.WithLocks(t.Context(), keys, func(context.Context) error { return nil }))
	}
	for _, opts := range [][]guard.LockOption{{guard.Name("account")}, {guard.Name("account"), guard.Shared()}} {
		outer, err := g.Acquire(t.Context(), guard.Key("account/1"), opts...)
		require.NoError(t, err)
		nest(t, guard.Detach(outer.Context()), g, "order/1")
		require.NoError(t, outer.Release(t.Context()))
		nest(t, context.WithoutCancel(outer.Context()), g, "order/1")
	}
	assert.Empty(t, tb.all)
}

// A goroutine that outlives the test must not fail another one, nor panic.
func TestOrder_SaysNothingWhenTheTestIsOver(t *testing.T) {
	t.Parallel()
	var tb *faults
	var o guard.Observer
	t.Run("the test", func(t *testing.T) {
		tb = &faults{TB: t}
		o = guardtest.Order(tb)
	})
	g := guardtest.NewMemoryGuard(t, guard.Observe(o))
	nest(t, t.Context(), g, "a/1", "b/1")
	nest(t, t.Context(), g, "b/1", "a/1")
	assert.Empty(t, tb.all)
}
