package echocore

import (
	"fmt"
	"strings"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httprule"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// Table says which Rule the requests of a route have. No rows are added once it is in
// use.
type Table[C Context] struct {
	rows   map[string]map[string]row[C] // by the shape of the path, then by the method
	faults httprule.Faults
}

type row[C Context] struct {
	route string
	rule  *Rule[C]
}

// Add puts a Rule into the table, at a route such as "POST /orders/:id/pay". placeholders
// are those of its template, if it has one.
func (t *Table[C]) Add(route string, rule *Rule[C], placeholders []string) error {
	method, path, err := parseRoute(route)
	if err != nil {
		return err
	}
	shape := shapeOf(path)
	if other, taken := t.rows[shape][method]; taken {
		return fmt.Errorf("the same requests have the row %q", other.route)
	}
	if err := checkCount(placeholders, paramNames(path)); err != nil {
		return err
	}
	if t.rows == nil {
		t.rows = make(map[string]map[string]row[C])
	}
	if t.rows[shape] == nil {
		t.rows[shape] = make(map[string]row[C])
	}
	t.rows[shape][method] = row[C]{route, rule}
	return nil
}

// Handle calls next, under the lock of the row for the route of c, if there is one.
func (t *Table[C]) Handle(f *Framework[C], c C, next func(C) error) error {
	path := c.Path()
	if path == "" {
		if f.Early(c) {
			// Without a route no row would ever apply, and nothing would be locked.
			ctx := c.Request().Context()
			err := &guard.KeyError{Reason: "the request has no route yet: Annotate belongs into Use, not into Pre"}
			t.faults.Log(ctx, adapter, "", outcome.Of(ctx, err, f.Known), err)
			return f.Answer(c, err)
		}
		return next(c)
	}
	var buf [128]byte
	if byMethod, ok := t.rows[string(appendShape(buf[:0], path))]; ok {
		if row, ok := byMethod[f.Method(c)]; ok {
			return f.Handle(row.rule, row.route, c, next)
		}
	}
	return next(c)
}

// parseRoute takes "POST /orders/:id/pay" apart.
func parseRoute(route string) (method, path string, err error) {
	method, path, ok := strings.Cut(route, " ")
	switch {
	case !ok || method == "" || path == "" || strings.ContainsAny(path, " \t"):
		err = fmt.Errorf(`a route is a method and a path, as in "POST /orders/:id/pay"`)
	case method != strings.ToUpper(method):
		err = fmt.Errorf("no request has the method %q: methods are in upper case", method)
	case strings.ContainsAny(path, "{}"):
		err = fmt.Errorf("echo writes path parameters as :name, not as {name}")
	}
	return method, path, err
}

func shapeOf(path string) string { return string(appendShape(nil, path)) }

// appendShape appends what echo routes by: path begins with a slash, its parameters have
// no names, and nothing follows its wildcard. A row that calls a parameter by another
// name than the route does must not go unnoticed.
func appendShape(dst []byte, path string) []byte {
	if path[0] != '/' {
		dst = append(dst, '/')
	}
	for i := 0; i < len(path); i++ {
		dst = append(dst, path[i])
		switch path[i] {
		case '*':
			return dst
		case '\\': // "\:" is a colon
			if i+1 < len(path) && path[i+1] == ':' {
				i++
				dst = append(dst, ':')
			}
		case ':':
			for i+1 < len(path) && path[i+1] != '/' {
				i++
			}
		}
	}
	return dst
}
