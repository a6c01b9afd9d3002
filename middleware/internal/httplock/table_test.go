package httplock

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newTable has keys by the row. problem is what it panics with.
func newTable(rows map[string]string) (table Table, problem any) {
	defer func() { problem = recover() }()
	rules := map[string]Rule{}
	for row, template := range rows {
		rules[row] = Rule{Locks: Keys.Lock(template, nil)}
	}
	return NewTable(tested, nil, rules), nil
}

func TestTable_RowsOfATable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ route, template, problem string }{
		{"POST /orders/:id/pay", "order:{id}", ""},
		{"POST orders/:id/pay", "{id}:{header:X}", ""},
		{"POST /files/*", "file:{*}", ""},
		{"POST /files/*path", "file:{path}", ""},
		{`POST /a\:b/:c`, "{c}", ""},
		{"POST /:method/:x", "{x}:{path:method}", ""},
		{"POST /:method/:x", "{method}", "placeholder {method}: the route has a path value of that name: write {path:method}"},
		{"POST /orders/:id/pay", "order:{order}", "placeholder {order}: the route has no such path value"},
		{"POST /orders/:id/pay", "order:{path:order}", "placeholder {path:order}: the route has no such path value"},
		{"POST /files/:id", "{*}", "placeholder {*}: the route has no such path value"},
		{`POST /a\:b`, "{b}", "placeholder {b}: the route has no such path value"},
		{"POST /orders/:id/pay", "order:id", `the key has :id as text, one for all requests: the path value is {id}`},
		{"POST /orders/:id/pay", "order::id", `the key has :id as text, one for all requests: the path value is {id}`},
		{"POST /orders/:id/pay", "order:id:{id}", ""},
		{"POST /orders/:id/pay", "id:{path:id}", ""},
		{"POST /orders/:id/pay", "a:idle", ""},
		{"POST /orders/:id/pay", "id", ""},
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
		NewTable(tested, nil, map[string]Rule{"POST /a": {Locks: Keys.LockFunc(nil, nil)}})
	})
	_, problem := newTable(map[string]string{"POST list": "a", "POST /list": "b"})
	assert.Equal(t, `test: row "POST list": the same requests have the row "POST /list"`, problem)

	table, problem := newTable(map[string]string{"POST list": "a", "GET /": "b"})
	require.Nil(t, problem)
	assert.Equal(t, "POST list", table.Of("POST", "/list").Name, "as it was written")
	assert.NotNil(t, table.Of("GET", "/"))
	assert.Nil(t, table.Of("GET", ""), "a request without a route")
	assert.Nil(t, table.Of("PUT", "/list"))
}

func TestTable_RowsWithoutARouteAreReported(t *testing.T) {
	t.Parallel()
	serves := func(method, path string) bool { return method == "POST" && path == "/list" }
	assert.NoError(t, CheckRows(tested, map[string]string{"POST list": "a"}, serves))
	err := CheckRows(tested, map[string]string{"PUT /list": "a", "POST /list": "a", "POST /a": "a", "x": "a"}, serves)
	assert.EqualError(t, err, errors.Join(
		errors.New(`test: row "POST /a": there is no such route; a row has the full path, as the route has it`),
		errors.New(`test: row "PUT /list": there is no such route; a row has the full path, as the route has it`),
		errors.New(`test: row "x": a route is a method and a path, as in "POST /orders/:id/pay"`),
	).Error())
}
