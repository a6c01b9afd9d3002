package httplock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Table has Routes by method and path, for a router that writes "POST /orders/:id".
type Table map[string]*Route

// NewTable binds the guardhttp.Rules of a table to g. It panics with the adapter's name and the row that is
// wrong.
func NewTable[R any](a *Adapter, g *guard.Guard, rows map[string]R) Table {
	table := make(Table, len(rows))
	locking.Table(a.Name, rows, func(name string, rule R) (struct{}, error) {
		return struct{}{}, table.add(a, g, name, rule)
	})
	return table
}

func (t Table) add(a *Adapter, g *guard.Guard, name string, rule any) error {
	method, path, err := parseRoute(name)
	if err != nil {
		return err
	}
	key := method + " " + path
	if other, taken := t[key]; taken {
		return fmt.Errorf("the same requests have the row %q", other.Name)
	}
	if t[key], err = a.BindRow(g, rule, path); err == nil {
		t[key].Name = name
	}
	return err
}

// BindRow is Bind for a route of a pattern. It also returns an error if the pattern lacks what the Rule's templates
// need.
func (a *Adapter) BindRow(g *guard.Guard, rule any, pattern string) (*Route, error) {
	route, err := a.Bind(g, rule)
	if err == nil {
		err = fits(route.rule.Locks, pattern)
	}
	return route, err
}

// Of returns the row of a route, or nil. A request without a route has the path "".
func (t Table) Of(method, path string) *Route { return t[method+" "+path] }

// CheckRows returns an error that names each row without a route. serves reports whether the router has a route.
func CheckRows[R any](a *Adapter, rows map[string]R, serves func(method, path string) bool) error {
	return locking.CheckTable(a.Name, rows, func(name string, _ R) error {
		method, path, err := parseRoute(name)
		if err == nil && !serves(method, path) {
			err = errors.New("there is no such route; a row has the full path, as the route has it")
		}
		return err
	})
}

// parseRoute splits "POST /orders/:id/pay". It adds a missing first slash to the path, as routers do.
func parseRoute(name string) (method, path string, err error) {
	method, path, ok := strings.Cut(name, " ")
	switch {
	case !ok || method == "" || path == "" || strings.ContainsAny(path, " \t"):
		err = errors.New(`a route is a method and a path, as in "POST /orders/:id/pay"`)
	case method != strings.ToUpper(method):
		err = fmt.Errorf("no request has the method %q: methods are in upper case", method)
	case strings.ContainsAny(path, "{}"):
		err = errors.New("this router writes path parameters as :name, not as {name}")
	}
	return method, "/" + strings.TrimPrefix(path, "/"), err
}
