package guard_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// Callers of one process share a claim: its grant serves the caller that is in front by then. The success of that
// caller is recorded, in its own name. The caller for whom the claim was made leaves before the claim asks, or while it does.
func TestOnce_SuccessUnderAnotherCallersClaimIsRecorded(t *testing.T) {
	for name, opts := range map[string][]guard.OnceOption{"default": nil, "at most once": {guard.AtMostOnce()}} {
		for _, whileItAsks := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", while it asks: ", whileItAsks), func(t *testing.T) {
				bubble(t, func(t *testing.T, g *env) {
					other := g.another()
					held := other.take()
					leaves, cancel := context.WithCancel(t.Context())
					call := func(ctx context.Context, name string, fn func(context.Context) (int, error)) chan error {
						return begin(func() error {
							_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, fn, append(opts, guard.Metadata(name))...)
							return err
						})
					}
					first := call(leaves, "first", noRun[int](t))
					second := call(t.Context(), "second", gives(2))
					works := "second"
					if whileItAsks {
						works = "first" // as far as the claim knows
						g.s.trouble(only("acquire", func(context.Context) error { cancel(); synctest.Wait(); return nil }), nil)
					} else {
						cancel()
						synctest.Wait()
					}
					other.free(held)
					is(t, <-first, context.Canceled)
					require.NoError(t, <-second)
					g.s.trouble(nil, nil)
					claim, _ := g.s.last("k")
					assert.Equal(t, works, claim.Metadata, "the record names the caller that works")
					assert.Equal(t, "second", g.s.outcome("k").Holder, "the record names the caller that worked")
					other.replays(2, opts...)
				})
			})
		}
	}
}
