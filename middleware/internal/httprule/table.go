package httprule

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Table has the Lockers of the routes of a router that writes them as "POST /orders/:id".
type Table[S, H any] map[string]*Row[S, H]

// Row is the Locker of a route.
type Row[S, H any] struct {
	*Locker[S, H]
	Route string
}

// NewTable binds the rules of a table to g. It panics with the adapter's name and the row that is
// wrong.
func NewTable[S, H, R any](a *Adapter[S, H], g *guard.Guard, rows map[string]R, rule func(R) Rule[S, H]) Table[S, H] {
	table := make(Table[S, H], len(rows))
	locking.Table(a.Name, rows, func(route string, row R) (struct{}, error) {
		return struct{}{}, table.add(g, route, rule(row))
	})
	return table
}

func (t Table[S, H]) add(g *guard.Guard, route string, rule Rule[S, H]) error {
	method, path, err := parseRoute(route)
	if err != nil {
		return err
	}
	if other, taken := t[method+" "+path]; taken {
		return fmt.Errorf("the same requests have the row %q", other.Route)
	}
	bound, err := rule.Bind(g)
	if err != nil {
		return err
	}
	t[method+" "+path] = &Row[S, H]{bound, route}
	names := paramNames(path)
	return httprequest.Fits(rule.Placeholders(), func(name string) bool { return slices.Contains(names, name) })
}

// Of gives the row of a route as a router names it, nil if there is none. A request without
// a route has the path "".
func (t Table[S, H]) Of(method, path string) *Row[S, H] { return t[method+" "+path] }

// CheckRows says which rows of a table are no route. serves says whether the router has one.
func CheckRows[R any](adapter string, rows map[string]R, serves func(method, path string) bool) error {
	return locking.CheckTable(adapter, rows, func(route string, _ R) error {
		method, path, err := parseRoute(route)
		if err == nil && !serves(method, path) {
			err = errors.New("there is no such route; a row has the full path, as the route has it")
		}
		return err
	})
}

// parseRoute takes "POST /orders/:id/pay" apart.
func parseRoute(route string) (method, path string, err error) {
	method, path, ok := strings.Cut(route, " ")
	switch {
	case !ok || method == "" || path == "" || strings.ContainsAny(path, " \t"):
		err = errors.New(`a route is a method and a path, as in "POST /orders/:id/pay"`)
	case method != strings.ToUpper(method):
		err = fmt.Errorf("no request has the method %q: methods are in upper case", method)
	case strings.ContainsAny(path, "{}"):
		err = errors.New("this router writes path parameters as :name, not as {name}")
	}
	return method, rooted(path), err
}

// rooted spells a path as a router does: routes keep the spelling they were given.
func rooted(path string) string {
	if path == "" || path[0] != '/' {
		return "/" + path
	}
	return path
}

// paramNames gives the names of the parameters in a path. A wildcard without a name is "*".
func paramNames(path string) (names []string) {
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '*':
			if name := path[i+1:]; name != "" {
				return append(names, name)
			}
			return append(names, "*")
		case '\\': // "\:" is a colon
			i++
		case ':':
			name, _, _ := strings.Cut(path[i+1:], "/")
			names = append(names, name)
			i += len(name)
		}
	}
	return names
}
