package guardhttp_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func TestAnd(t *testing.T) {
	t.Parallel()
	t.Run("of a Rule", func(t *testing.T) {
		t.Parallel()
		adaptertest.And(t, func(_ testing.TB, g *guard.Guard, work http.HandlerFunc, opts ...guard.LockOption) http.Handler {
			return guardhttp.Annotate(g, work, guardhttp.Routes{
				"POST /accounts/{from}/pay/{to}": guardhttp.Lock("account:{from}", opts...).And("account:{to}").And("tenant:{header:X-Tenant}"),
			})
		})
	})
	t.Run("of key functions", func(t *testing.T) {
		t.Parallel()
		adaptertest.And(t, func(_ testing.TB, g *guard.Guard, work http.HandlerFunc, opts ...guard.LockOption) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /accounts/{from}/pay/{to}", guardhttp.Middleware(g, guardhttp.Key("account:{from}"),
				guardhttp.And(guardhttp.Key("account:{to}"), guardhttp.Key("tenant:{header:X-Tenant}")), guardhttp.With(opts...))(work))
			return mux
		})
	})
}

func TestAndIsChecked(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	key := guardhttp.Key("k")
	assert.PanicsWithValue(t, "guardhttp: no KeyFunc at index 1 of And", func() { guardhttp.Middleware(g, key, guardhttp.And(key, nil)) })
	assert.PanicsWithValue(t, "guardhttp: 65 keys with those of And, the most is 64", func() {
		guardhttp.Middleware(g, key, guardhttp.And(slices.Repeat([]guardhttp.KeyFunc{key}, 64)...))
	})
	assert.NotPanics(t, func() { guardhttp.Middleware(g, key, guardhttp.And(slices.Repeat([]guardhttp.KeyFunc{key}, 63)...)) })
	assert.Panics(t, func() { guardhttp.Lock("a").And("b:{") })
	assert.PanicsWithValue(t, `guardhttp: row "POST /accounts/{from}": placeholder {to}: the route has no such path value`, func() {
		guardhttp.Annotate(g, http.NotFoundHandler(), guardhttp.Routes{
			"POST /accounts/{from}": guardhttp.Lock("account:{from}").And("account:{to}"),
		})
	})
	one := guardhttp.Lock("a")
	_ = one.And("b")
	assert.Len(t, one.Options, 1, "the rule itself stays as it is")
}
