package adaptertest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardtest"
)

// values checks placeholders that code fills.
func values(t *testing.T, build Build) {
	tenant := func(value string, err error) map[string]func(*http.Request) (string, error) {
		return map[string]func(*http.Request) (string, error){"tenant": func(*http.Request) (string, error) { return value, err }}
	}
	ask := func(template string, of map[string]func(*http.Request) (string, error)) (status int, body string) {
		rec := serve(build(t, Setup{Guard: guardtest.NewMemoryGuard(t), Template: template, Values: of, Work: ShowKey}), pay("7"))
		return rec.Code, rec.Body.String()
	}
	status, key := ask("tenant:{tenant}:order:{id}", tenant("a:b", nil))
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "tenant:a%3Ab:order:7", key)
	byID := map[string]func(*http.Request) (string, error){"id": func(r *http.Request) (string, error) { return "0" + r.PathValue("id"), nil }}
	_, key = ask("order:{id}", byID)
	assert.Equal(t, "order:07", key, "in place of the path value, which it may use")

	for want, of := range map[int]map[string]func(*http.Request) (string, error){
		http.StatusBadRequest:          tenant("", nil),
		http.StatusNotFound:            tenant("", statusError{}),
		http.StatusInternalServerError: tenant("", errOwn),
	} {
		status, body := ask("{tenant}", of)
		assert.Equal(t, want, status)
		assert.Contains(t, body, "lock_key_invalid")
	}
	assert.Contains(t, panicText(func() { ask("order:{id}", tenant("a", nil)) }), "Value: no template has the placeholder {tenant}")
	assert.Contains(t, panicText(func() {
		ask("{tenant}", map[string]func(*http.Request) (string, error){"tenant": nil})
	}), "Value: the function of {tenant} is nil")
}
