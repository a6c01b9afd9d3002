package guard_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

type requestID struct{}

func withRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestID{}, id)
}

func requestOf(ctx context.Context) string {
	id, _ := ctx.Value(requestID{}).(string)
	return id
}

// holderSeen is whom a call that does not wait finds in its way.
func holderSeen(t *testing.T, g *guard.Guard, ctx context.Context) string {
	t.Helper()
	var busy *guard.BusyError
	require.ErrorAs(t, g.WithLock(ctx, testenv.Order, testenv.Nothing, guard.NoWait()), &busy)
	return busy.Holder
}

func TestMetadata_OfEachCall(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		other, err := guard.NewWithStore(s)
		require.NoError(t, err)
		defer other.Close()
		for _, id := range []string{"request 1", "request 2", ""} {
			require.NoError(t, g.WithLock(withRequest(t.Context(), id), testenv.Order, func(context.Context) error {
				assert.Equal(t, id, holderSeen(t, g, t.Context()))
				assert.Equal(t, id, holderSeen(t, other, t.Context()), "another process sees it, too")
				return nil
			}))
		}
	}, guard.MetadataFunc(requestOf))
}

// Whoever gets the lock is who is named, also where it was passed on without Redis.
func TestMetadata_OfThoseInTheQueue(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		first, err := g.Acquire(withRequest(t.Context(), "first"), testenv.Order)
		require.NoError(t, err)
		var waits sync.WaitGroup
		for _, id := range []string{"second", "third"} {
			waits.Go(func() {
				assert.NoError(t, g.WithLock(withRequest(t.Context(), id), testenv.Order, func(context.Context) error {
					assert.Equal(t, id, holderSeen(t, g, t.Context()))
					return nil
				}))
			})
			synctest.Wait()
		}
		require.NoError(t, first.Release(t.Context()))
		waits.Wait()
	}, guard.MetadataFunc(requestOf))
}

func TestMetadata_TheLaterMetadataCounts(t *testing.T) {
	fixed, perCall := guard.Metadata("fixed"), guard.MetadataFunc(requestOf)
	for name, test := range map[string]struct {
		guard []guard.Option
		call  []guard.LockOption
		want  string
	}{
		"the call's text over the Guard's function": {[]guard.Option{perCall}, []guard.LockOption{fixed}, "fixed"},
		"the call's function over the Guard's text": {[]guard.Option{fixed}, []guard.LockOption{perCall}, "request"},
		"text behind function":                      {nil, []guard.LockOption{perCall, fixed}, "fixed"},
		"function behind text":                      {nil, []guard.LockOption{fixed, perCall}, "request"},
		"no text":                                   {[]guard.Option{perCall}, []guard.LockOption{guard.Metadata("")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.NewGuard(t, test.guard...)
			ctx := withRequest(t.Context(), "request")
			assert.NoError(t, g.WithLock(ctx, testenv.Order, func(context.Context) error {
				assert.Equal(t, test.want, holderSeen(t, g, t.Context()))
				return nil
			}, test.call...))
		})
	}
}

func TestMetadata_FuncOutOfBounds(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		for text, why := range map[string]string{
			strings.Repeat("m", guard.MaxMetadataLength+1): "257 bytes, the most is 256",
			"\xff": "UTF-8",
		} {
			err := g.WithLock(withRequest(t.Context(), text), testenv.Order, func(context.Context) error {
				t.Error("ran")
				return nil
			}, guard.FailOpen())
			require.ErrorIs(t, err, guard.ErrOption)
			require.ErrorContains(t, err, "MetadataFunc")
			require.ErrorContains(t, err, why)
		}
		assert.Zero(t, s.Calls("acquire"))
		assert.Empty(t, r.Observations())
		most := strings.Repeat("m", guard.MaxMetadataLength)
		require.NoError(t, g.WithLock(withRequest(t.Context(), most), testenv.Order, testenv.Nothing))
	}, guard.MetadataFunc(requestOf))
}

func TestMetadata_FuncIsCalledOncePerClaim(t *testing.T) {
	calls := 0
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			require.NoError(t, g.WithLock(ctx, testenv.Order, testenv.Nothing))
			assert.Equal(t, 1, calls, "a re-entry claims nothing")
			return g.WithLock(ctx, guard.Key("another"), testenv.Nothing)
		}))
		assert.Equal(t, 2, calls)
		require.ErrorIs(t, g.WithLock(t.Context(), guard.Key(""), testenv.Nothing), guard.ErrKey)
		assert.Equal(t, 2, calls, "without a key there is nothing to describe")

		assert.PanicsWithValue(t, "own", func() {
			_ = g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.MetadataFunc(func(context.Context) string { panic("own") }))
		})
		require.NoError(t, g.Shutdown(t.Context()), "nothing was begun")
	}, guard.MetadataFunc(func(context.Context) string { calls++; return "" }))
}
