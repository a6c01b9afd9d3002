package adaptertest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func transfer(from, to string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/accounts/"+from+"/pay/"+to, nil)
	r.Header.Set("X-Tenant", from+to) // no request waits for the tenant
	return r
}

// and checks rules of several keys.
func and(t *testing.T, original Build) {
	build := func(tb testing.TB, g *guard.Guard, work http.HandlerFunc, opts ...guard.LockOption) http.Handler {
		return original(tb, Setup{
			Guard: g, Path: "/accounts/{from}/pay/{to}", Template: "account:{from}", Work: work, Options: opts,
			And: []string{"account:{to}", "tenant:{header:X-Tenant}"},
		})
	}
	nothing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	t.Run("all keys are held", func(t *testing.T) {
		t.Parallel()
		g := guardtest.NewMemoryGuard(t)
		h := build(t, g, func(w http.ResponseWriter, r *http.Request) {
			for _, key := range []string{"account:7", "account:8", "tenant:87"} {
				_, ok := guard.Held(r.Context(), guard.Key(key))
				assert.True(t, ok, key)
			}
			w.WriteHeader(http.StatusNoContent)
		})
		assert.Equal(t, http.StatusNoContent, serve(h, transfer("8", "7")).Code)
		for _, key := range []string{"account:7", "account:8", "tenant:87"} {
			assertFree(t, g, key)
		}
	})
	t.Run("any busy key is an answer, and the others are free", func(t *testing.T) {
		t.Parallel()
		for _, busy := range []string{"account:7", "account:8", "tenant:78"} {
			b := newBench(t)
			b.hold(t, busy)
			h := build(t, b.Guard, nothing, guard.NoWait())
			rec := serve(h, transfer("7", "8"))
			require.Equal(t, http.StatusConflict, rec.Code, busy)
			assert.Contains(t, rec.Body.String(), "lock_busy")
			for _, key := range []string{"account:7", "account:8", "tenant:78"} {
				if key != busy {
					assertFree(t, b.Guard, key)
				}
			}
		}
	})
}
