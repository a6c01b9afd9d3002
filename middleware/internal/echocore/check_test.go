package echocore

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCheckComparesRowsWithRoutes(t *testing.T) {
	t.Parallel()
	routes := []Route{
		{"POST", "/orders/:id/pay"},
		{"DELETE", "/orders/:order"},
		{"POST", "list"},
		{AnyMethod, "/any/*"},
		{"POST", `/a\:b/:c`},
		{"POST", "/orders/:host/:x"},
	}
	for row, want := range map[string]struct{ placeholders, problem string }{
		"POST /orders/:id/pay":    {"id", ""},
		"POST /orders/:order/pay": {"path:id header:X host query:q", ""}, // names are the route's
		"POST orders/:id/pay":     {"", ""},
		"GET /orders/:id/pay":     {"", "there is no such route"},
		"POST /orders/:id/payy":   {"", "there is no such route"},
		"POST /orders/7/pay":      {"", "there is no such route"},
		"DELETE /orders/:id":      {"id", `the path of the route is "/orders/:order": placeholder {id}: the route has no such path value`},
		"POST /list":              {"", ""},
		"BREW /any/*":             {"*", ""},
		"PUT /any/*":              {"path:id", `the path of the route is "/any/*": placeholder {path:id}: the route has no such path value`},
		`POST /a\:b/:id`:          {"c", ""},
		"POST /a:b/:c":            {"", "there is no such route"},
		"POST /orders/:a/:b":      {"host", `the path of the route is "/orders/:host/:x": placeholder {host}: the route has a path value of that name: write {path:host}`},
		"post /list":              {"", `no request has the method "post": methods are in upper case`},
		"POST /{id}":              {"", "echo writes path parameters as :name, not as {name}"},
		"/list":                   {"", `a route is a method and a path, as in "POST /orders/:id/pay"`},
	} {
		err := Check(map[string][]string{row: strings.Fields(want.placeholders)}, routes)
		if want.problem == "" {
			assert.NoError(t, err, row)
		} else {
			assert.EqualError(t, err, "guardecho: row "+quoted(row)+": "+want.problem)
		}
	}
	err := Check(map[string][]string{"POST /b": nil, "POST /list": nil, "POST /a": nil}, routes)
	assert.EqualError(t, err, "guardecho: row \"POST /a\": there is no such route\nguardecho: row \"POST /b\": there is no such route")
}

func quoted(row string) string { return `"` + strings.ReplaceAll(row, `\`, `\\`) + `"` }

func TestRowsHaveEnoughParameters(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ path, placeholders, problem string }{
		{"/orders/:id/pay", "id", ""},
		{"/orders/:id/pay", "order", ""}, // the route may call it so
		{"/orders/:id/pay", "order path:order", ""},
		{"/:a/:b/*", "a path:b *", ""},
		{"/list", "header:X host method query:a cookie:c", ""},
		{"/list", "id", "the key needs 1 path parameters by name, and the path has 0"},
		{"/orders/:id/pay", "id path:order", "the key needs 2 path parameters by name, and the path has 1"},
		{"/files/*", "id", "the key needs 1 path parameters by name, and the path has 0"},
		{"/files/:id", "*", "placeholder {*}: the path has no wildcard"},
		{`/a\:b`, "b", "the key needs 1 path parameters by name, and the path has 0"},
	} {
		var table Table[Context]
		err := table.Add("POST "+row.path, nil, strings.Fields(row.placeholders))
		if row.problem == "" {
			assert.NoError(t, err, "%+v", row)
		} else {
			assert.EqualError(t, err, row.problem, "%+v", row)
		}
	}
}
