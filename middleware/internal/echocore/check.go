package echocore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/middleware/internal/httprequest"
)

// Route is a route of an Echo. Method may be AnyMethod.
type Route struct{ Method, Path string }

// AnyMethod stands for every method.
const AnyMethod = ""

// Check says which rows have no route, and which templates need path parameters that the
// route has not. rows gives for each row the placeholders of its template.
func Check(rows map[string][]string, routes []Route) error {
	var problems []error
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		if err := checkRow(row, rows[row], routes); err != nil {
			problems = append(problems, fmt.Errorf(adapter+": row %q: %w", row, err))
		}
	}
	return errors.Join(problems...)
}

func checkRow(row string, placeholders []string, routes []Route) error {
	method, path, err := parseRoute(row)
	if err != nil {
		return err
	}
	found := false
	for _, route := range routes {
		if route.Method != method && route.Method != AnyMethod || shapeOf(route.Path) != shapeOf(path) {
			continue
		}
		found = true
		names := paramNames(route.Path)
		err := httprequest.Fits(placeholders, func(name string) bool { return slices.Contains(names, name) })
		if err != nil {
			return fmt.Errorf("the path of the route is %q: %w", route.Path, err)
		}
	}
	if !found {
		return errors.New("there is no such route")
	}
	return nil
}

// checkCount says whether a template needs more path parameters than a row has. What they
// are called, the route says, which may differ from the row.
func checkCount(placeholders, params []string) error {
	needed := map[string]bool{}
	for _, placeholder := range placeholders {
		if name, ok := httprequest.PathValueOf(placeholder); ok {
			needed[name] = true
		}
	}
	if slices.Contains(params, wildcard) {
		params = params[:len(params)-1] // it is the last one
	} else if needed[wildcard] {
		return errors.New("placeholder {*}: the path has no wildcard")
	}
	delete(needed, wildcard)
	if len(needed) > len(params) {
		return fmt.Errorf("the key needs %d path parameters by name, and the path has %d", len(needed), len(params))
	}
	return nil
}

// wildcard is what the parameter of a wildcard is called.
const wildcard = "*"

// paramNames gives the names of the parameters in a path.
func paramNames(path string) (names []string) {
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '*':
			return append(names, wildcard)
		case '\\': // "\:" is a colon
			if i+1 < len(path) && path[i+1] == ':' {
				i++
			}
		case ':':
			name, _, _ := strings.Cut(path[i+1:], "/")
			names = append(names, name)
			i += len(name)
		}
	}
	return names
}
