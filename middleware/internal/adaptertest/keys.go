package adaptertest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardtest"
)

// keys checks that URLs give the key that they would under http.ServeMux: one resource
// must not have several locks because its name can be spelled in several ways.
func keys(t *testing.T, build Build) {
	h := build(t, Setup{Guard: guardtest.NewMemoryGuard(t), Template: "order:{id}", Work: ShowKey})
	for id, want := range map[string]string{
		"7":                      "order:7",
		"%37":                    "order:7",
		"%61":                    "order:a",
		"a%2Fb":                  "order:a/b",
		"a%2fb":                  "order:a/b",
		"100%25":                 "order:100%25",
		"%2541":                  "order:%2541",
		"%2541%2Fb":              "order:%2541/b",
		"a%20b":                  "order:a b",
		"a+b":                    "order:a+b",
		"a:b":                    "order:a%3Ab",
		"a%3Ab":                  "order:a%3Ab",
		"%C3%BC":                 "order:ü",
		"{id}":                   "order:{id}",
		"%7Bid%7D":               "order:{id}",
		strings.Repeat("x", 506): "order:" + strings.Repeat("x", 506),
	} {
		rec := serve(h, pay(id))
		assert.Equal(t, http.StatusOK, rec.Code, id)
		assert.Equal(t, want, rec.Body.String(), id)
	}
	values := map[string]func(*http.Request) (string, error){
		"tenant": func(*http.Request) (string, error) { return "a:b", nil },
		"id":     func(r *http.Request) (string, error) { return "0" + r.PathValue("id"), nil },
	}
	s := Setup{Guard: guardtest.NewMemoryGuard(t), Template: "tenant:{tenant}:order:{id}", Values: values, Work: ShowKey}
	assert.Equal(t, "tenant:a%3Ab:order:07", serve(build(t, s), pay("7")).Body.String())
	for _, id := range []string{"%FF", "a%FF%2Fb", strings.Repeat("x", 507), strings.Repeat("%3A", 200)} {
		assert.Equal(t, http.StatusBadRequest, serve(h, pay(id)).Code, id)
	}
}
