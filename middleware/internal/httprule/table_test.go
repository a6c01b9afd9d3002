package httprule

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type testRules = map[string]Rule[string, func()]

// rows are rules by the row, each with a template.
func rows(all map[string]string) testRules {
	bind := func(name string) (keytemplate.Extract[string], error) {
		return func(string) (string, error) { return name, nil }, nil
	}
	adapter := &locking.Adapter[string]{Name: "test", Grammar: keytemplate.Grammar[string]{Bare: bind, Kinds: map[string]keytemplate.Bind[string]{"header": bind}}}
	rules := testRules{}
	for row, template := range all {
		rules[row] = Rule[string, func()]{Rule: adapter.Lock(template, nil)}
	}
	return rules
}

func TestRowsOfATable(t *testing.T) {
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
		{"POST ", "all", `a route is a method and a path, as in "POST /orders/:id/pay"`},
		{"POST  /a", "all", `a route is a method and a path, as in "POST /orders/:id/pay"`},
		{"post /list", "all", `no request has the method "post": methods are in upper case`},
		{"POST /{id}", "all", "this router writes path parameters as :name, not as {name}"},
	} {
		_, err := NewTable(nil, rows(map[string]string{row.route: row.template}))
		if row.problem == "" {
			assert.NoError(t, err, "%+v", row)
		} else {
			assert.ErrorContains(t, err, row.problem, "%+v", row)
		}
	}
	_, err := NewTable(nil, rows(map[string]string{"POST list": "a", "POST /list": "b"}))
	assert.EqualError(t, err, `row "POST list": the same requests have the row "POST /list"`)

	table, err := NewTable(nil, rows(map[string]string{"POST list": "a", "GET /": "b"}))
	require.NoError(t, err)
	assert.Equal(t, "POST list", table.Of("POST", "/list").Route, "as it was written")
	assert.NotNil(t, table.Of("GET", "/"))
	assert.Nil(t, table.Of("GET", ""), "a request without a route")
	assert.Nil(t, table.Of("PUT", "/list"))
}

func TestRowsWithoutARouteAreTold(t *testing.T) {
	t.Parallel()
	serves := func(method, path string) bool { return method == "POST" && path == "/list" }
	assert.NoError(t, CheckRows("test", rows(map[string]string{"POST list": "a"}), serves))
	err := CheckRows("test", rows(map[string]string{"PUT /list": "a", "POST /list": "a", "POST /a": "a", "x": "a"}), serves)
	assert.EqualError(t, err, errors.Join(
		errors.New(`test: row "POST /a": there is no such route; a row has the full path, as the route has it`),
		errors.New(`test: row "PUT /list": there is no such route; a row has the full path, as the route has it`),
		errors.New(`test: row "x": a route is a method and a path, as in "POST /orders/:id/pay"`),
	).Error())
}
