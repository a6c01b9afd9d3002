package guard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// Callers of one process share a claim: its grant serves the caller that is in front by then. The success of that
// caller is recorded, in its own name.
func TestOnce_SuccessUnderAnotherCallersClaimIsRecorded(t *testing.T) {
	for _, atMostOnce := range []guard.OnceOption{nil, guard.AtMostOnce()} {
		bubble(t, func(t *testing.T, g *env) {
			other := g.another()
			held := other.take()
			leaves, cancel := context.WithCancel(t.Context())
			call := func(ctx context.Context, name string, fn func(context.Context) (int, error)) chan error {
				return begin(func() error {
					_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, fn, guard.Metadata(name), atMostOnce)
					return err
				})
			}
			first := call(leaves, "first", noRun[int](t))
			second := call(t.Context(), "second", gives(2))
			cancel()
			is(t, <-first, context.Canceled)
			synctest.Wait()
			other.free(held)
			require.NoError(t, <-second)
			claim, _ := g.s.last("k")
			assert.Equal(t, "second", claim.Metadata, "the record names the caller that works")
			assert.Equal(t, "second", g.s.outcome("k").Holder, "the record names the caller that worked")
			other.replays(2, atMostOnce)
		})
	}
}
