package guardhttp

import (
	"net/http"
	"regexp"
	"sync"
)

// row is a Rule at its pattern. It is an http.Handler so that a ServeMux finds it.
type row struct {
	pattern string
	names   []string // of the path values
	rule    *rule
	yields  sync.Map // pattern of a mux → whether it is more specific than the row's
}

var pathValueName = regexp.MustCompile(`\{(\w+)(?:\.\.\.)?\}`)

func newRow(pattern string, guarded *rule) *row {
	m := &row{pattern: pattern, rule: guarded}
	for _, match := range pathValueName.FindAllStringSubmatch(pattern, -1) {
		m.names = append(m.names, match[1])
	}
	return m
}

func (*row) ServeHTTP(http.ResponseWriter, *http.Request) {}

func (m *row) sameValues(r1, r2 *http.Request) bool {
	for _, name := range m.names {
		if r1.PathValue(name) != r2.PathValue(name) {
			return false
		}
	}
	return true
}

// appliesTo says whether mux would have the row serve r if it had the row's pattern, too.
func (m *row) appliesTo(r *http.Request, mux *http.ServeMux) bool {
	_, pattern := mux.Handler(r)
	switch pattern {
	case m.pattern:
		return true
	case "": // 404 or 405
		return false
	}
	// Both match r, and which one is more specific is the same for all that both match.
	yields, ok := m.yields.Load(pattern)
	if !ok {
		yields = m.yieldsTo(pattern, r)
		m.yields.Store(pattern, yields)
	}
	return !yields.(bool)
}

// yieldsTo says whether pattern is the more specific one. Where neither is, as they match
// the same requests, or each some that the other does not, ServeMux refuses the second
// one, and what is listed is locked.
func (m *row) yieldsTo(pattern string, r *http.Request) (yields bool) {
	defer func() {
		if recover() != nil {
			yields = false
		}
	}()
	both := http.NewServeMux()
	both.Handle(m.pattern, m)
	both.Handle(pattern, http.NotFoundHandler())
	h, _ := both.Handler(r)
	return h != http.Handler(m)
}
