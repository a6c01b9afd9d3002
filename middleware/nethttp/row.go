package guardhttp

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// row is a Rule at its pattern. It is an http.Handler so that a ServeMux finds it.
type row struct {
	pattern string
	names   []string // of the path values
	rule    *rule
	routes  sync.Map // pattern of a mux → *route
}

var pathValueName = regexp.MustCompile(`\{([^{}.$]+)(?:\.\.\.)?\}`)

// checkPattern says what http.ServeMux would take for a path like any other.
func checkPattern(pattern string) error {
	if strings.Contains(pattern, "/:") {
		return errors.New("a path value is written {id}, whatever the router's way")
	}
	return nil
}

func newRow(pattern string, guarded *rule) *row {
	m := &row{pattern: pattern, rule: guarded}
	for _, match := range pathValueName.FindAllStringSubmatch(pattern, -1) {
		m.names = append(m.names, match[1])
	}
	return m
}

func (m *row) hasPathValue(name string) bool { return slices.Contains(m.names, name) }

func (*row) ServeHTTP(http.ResponseWriter, *http.Request) {}

func (m *row) sameValues(r1, r2 *http.Request) bool {
	for _, name := range m.names {
		if r1.PathValue(name) != r2.PathValue(name) {
			return false
		}
	}
	return true
}

// appliesTo says whether what mux serves r by is the row's: the same path, or a more
// general one. Methods and hosts do not count: that mux has a route for POST only makes it
// no other route.
func (m *row) appliesTo(r *http.Request, mux *http.ServeMux) bool {
	_, pattern := handlerFor(r, mux)
	switch pattern {
	case m.pattern:
		return true
	case "": // 404 or 405
		return false
	}
	to := m.routeOf(pattern)
	return to.serves(r) && !to.isMoreSpecific(m, r)
}

// handlerFor gives what mux has for r, also where that belongs to a mux inside of it.
func handlerFor(r *http.Request, mux *http.ServeMux) (http.Handler, string) {
	for {
		h, pattern := mux.Handler(r)
		inner, nested := h.(*http.ServeMux)
		if !nested {
			return h, pattern
		}
		mux = inner
	}
}

// route is what a row knows of a pattern of a mux.
type route struct {
	pattern string
	alone   *http.ServeMux // has the pattern's path, and nothing else

	compare      sync.Once
	moreSpecific bool
}

// ServeHTTP does nothing: it makes route an http.Handler, so that a ServeMux finds it.
func (*route) ServeHTTP(http.ResponseWriter, *http.Request) {}

func (m *row) routeOf(pattern string) *route {
	known, ok := m.routes.Load(pattern)
	if !ok {
		to := &route{pattern: pattern, alone: http.NewServeMux()}
		to.alone.Handle(pathOf(pattern), to)
		known, _ = m.routes.LoadOrStore(pattern, to)
	}
	return known.(*route)
}

// serves says whether r is served by the pattern. Of a path that lacks the slash at the
// end, a mux names the pattern that it redirects to.
func (to *route) serves(r *http.Request) bool {
	h, _ := to.alone.Handler(r)
	return h == http.Handler(to)
}

// isMoreSpecific says whether the route's path is more specific than the row's. It is the
// same for all requests that both serve, of which r is one.
func (to *route) isMoreSpecific(m *row, r *http.Request) bool {
	to.compare.Do(func() { to.moreSpecific = m.yieldsTo(to, r) })
	return to.moreSpecific
}

// yieldsTo says whether a mux that had both paths would have to serve r. Where neither is
// more specific, as they match the same paths, or each some that the other does not,
// ServeMux refuses the second one, and what is listed is locked.
func (m *row) yieldsTo(to *route, r *http.Request) (yields bool) {
	defer func() {
		if recover() != nil {
			yields = false
		}
	}()
	both := http.NewServeMux()
	both.Handle(pathOf(m.pattern), m)
	both.Handle(pathOf(to.pattern), to)
	h, _ := both.Handler(r)
	return h == http.Handler(to)
}

// pathOf gives a pattern without its method and host, neither of which has a slash.
func pathOf(pattern string) string { return pattern[strings.IndexByte(pattern, '/'):] }
