package adaptertest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// rules checks what a Rule refuses, and how it names its locks.
func rules(t *testing.T, build Build) {
	g := guardtest.NewGuard(t)
	nothing := func(http.ResponseWriter, *http.Request) {}
	for want, s := range map[string]Setup{
		"guard: TTL":     {Template: "a", Options: []guard.LockOption{guard.TTL(1)}},
		"BusyStatus 200": {Template: "a", BusyStatus: 200},
		"column 7":       {Template: "order:{id"},
		"no KeyFunc":     {},
	} {
		s.Guard, s.Work = g, nothing
		assert.Contains(t, panicText(func() { build(t, s) }), want)
	}
	recorder := &guardtest.Recorder{}
	g = guardtest.NewGuard(t, guard.Observe(recorder), guard.Name("of the guard"))
	for _, opts := range [][]guard.LockOption{nil, {guard.Name("own")}} {
		serve(build(t, Setup{Guard: g, Template: "order:{id}", Options: opts, Work: nothing}), pay("7"))
	}
	seen := recorder.Observations("WaitStart")
	require.Len(t, seen, 2)
	assert.Regexp(t, `^POST /orders/(:id|\{id\})/pay$`, seen[0].Lock.Name)
	assert.Equal(t, "own", seen[1].Lock.Name)

	t.Run("a Guard of the context", func(t *testing.T) {
		h := build(t, Setup{Template: "order:{id}", Work: ShowKey})
		r := pay("7")
		assert.Equal(t, "order:7", serve(h, r.WithContext(guard.WithGuard(r.Context(), g))).Body.String())
	})
}

// check checks that a table which locks nothing is found.
func check(t *testing.T, adapter Adapter) {
	assert.NoError(t, adapter.Check())
	assert.NoError(t, adapter.Check("POST /orders/{id}/pay"))
	err := adapter.Check("POST /orders/{id}/pay", "POST /orders/{id}/payy", "GET /orders/{id}/pay", "POST /orders/{order}/pay", "POST /orders/7/pay")
	require.Error(t, err)
	for _, row := range []string{"POST /orders/{id}/payy", "GET /orders/{id}/pay", "POST /orders/{order}/pay", "POST /orders/7/pay"} {
		assert.Regexp(t, `row "(`+row+`|`+Colons(row)+`)": `, err.Error())
	}
	assert.NotRegexp(t, `row "POST /orders/(:id|\{id\})/pay"`, err.Error())
}
