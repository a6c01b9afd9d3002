package httprule

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var adapter = New[func()]("test", grammar())

func grammar() keytemplate.Grammar[string] {
	bind := func(name string) (keytemplate.Extract[string], error) {
		return func(string) (string, error) { return name, nil }, nil
	}
	return keytemplate.Grammar[string]{Bare: bind, Kinds: map[string]keytemplate.Bind[string]{"header": bind}}
}

// newTable has templates by the row. problem is what it panics with.
func newTable(rows map[string]string) (table Table[string, func()], problem any) {
	defer func() { problem = recover() }()
	return NewTable(adapter, nil, rows, func(template string) Rule[string, func()] { return adapter.Lock(template, nil) }), nil
}

func TestTable_RowsOfATable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ route, template, problem string }{
		{"POST /orders/:id/pay", "order:{id}", ""},
		{"POST orders/:id/pay", "{id}:{header:X}", ""},
		{"POST /files/*", "file:{*}", ""},
		{"POST /files/*path", "file:{path}", ""},
		{`POST /a\:b/:c`, "{c}", ""},
		{"POST /:host/:x", "{x}", ""},
		{"POST /:host/:x", "{host}", "placeholder {host}: the route has a path value of that name: write {path:host}"},
		{"POST /orders/:id/pay", "order:{order}", "placeholder {order}: the route has no such path value"},
		{"POST /files/:id", "{*}", "placeholder {*}: the route has no such path value"},
		{`POST /a\:b`, "{b}", "placeholder {b}: the route has no such path value"},
		{"/list", "all", `a route is a method and a path, as in "POST /orders/:id/pay"`},
		{" /list", "all", `a route is a method and a path, as in "POST /orders/:id/pay"`},
		{"POST /:a:b", "{b}", "placeholder {b}: the route has no such path value"},
		{"POST ", "all", `a route is a method and a path, as in "POST /orders/:id/pay"`},
		{"POST  /a", "all", `a route is a method and a path, as in "POST /orders/:id/pay"`},
		{"post /list", "all", `no request has the method "post": methods are in upper case`},
		{"POST /{id}", "all", "this router writes path parameters as :name, not as {name}"},
	} {
		_, problem := newTable(map[string]string{row.route: row.template})
		if row.problem == "" {
			assert.Nil(t, problem, "%+v", row)
		} else {
			assert.Contains(t, problem, row.problem, "%+v", row)
		}
	}
	assert.PanicsWithValue(t, `test: row "POST /a": no KeyFunc`, func() {
		NewTable(adapter, nil, map[string]string{"POST /a": ""}, func(string) Rule[string, func()] { return adapter.LockFunc(nil, nil) })
	})
	_, problem := newTable(map[string]string{"POST list": "a", "POST /list": "b"})
	assert.Equal(t, `test: row "POST list": the same requests have the row "POST /list"`, problem)

	table, problem := newTable(map[string]string{"POST list": "a", "GET /": "b"})
	require.Nil(t, problem)
	assert.Equal(t, "POST list", table.Of("POST", "/list").Route, "as it was written")
	assert.NotNil(t, table.Of("GET", "/"))
	assert.Nil(t, table.Of("GET", ""), "a request without a route")
	assert.Nil(t, table.Of("PUT", "/list"))
}

// The last OnError counts, and none is the adapter's. No option hides what is wrong with a Rule.
func TestRule_Options(t *testing.T) {
	t.Parallel()
	said := ""
	says := func(text string) func() { return func() { said = text } }
	rule := adapter.Lock("all", nil).OnError(says("own"), true)
	for want, r := range map[string]Rule[string, func()]{"own": rule, "the adapter's": rule.OnError(nil, false)} {
		bound, err := r.Bind(nil)
		require.NoError(t, err)
		bound.OnError(says("the adapter's"))()
		assert.Equal(t, want, said)
	}
	_, err := adapter.LockFunc(nil, nil).BusyStatus(423).Bind(nil)
	assert.EqualError(t, err, "no KeyFunc")
}

func TestTable_RowsWithoutARouteAreReported(t *testing.T) {
	t.Parallel()
	serves := func(method, path string) bool { return method == "POST" && path == "/list" }
	assert.NoError(t, CheckRows("test", map[string]string{"POST list": "a"}, serves))
	err := CheckRows("test", map[string]string{"PUT /list": "a", "POST /list": "a", "POST /a": "a", "x": "a"}, serves)
	assert.EqualError(t, err, errors.Join(
		errors.New(`test: row "POST /a": there is no such route; a row has the full path, as the route has it`),
		errors.New(`test: row "PUT /list": there is no such route; a row has the full path, as the route has it`),
		errors.New(`test: row "x": a route is a method and a path, as in "POST /orders/:id/pay"`),
	).Error())
}
