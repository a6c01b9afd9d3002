package guardhttp

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Check says which rows lock nothing, as mux has no route for them, or only routes with a
// more specific path. Call it when the routes are registered, before the server starts, or
// in a test. The error names each row; it is nil if all lock something.
//
// A ServeMux does not list its patterns, so Check asks it for made-up requests that a row
// matches. It finds a route that is registered for one host only by a row that names the
// host. It cannot tell a route for all paths, such as "/", from the one that was meant, nor
// what is behind http.StripPrefix.
func Check(mux *http.ServeMux, routes Routes) error {
	if mux == nil {
		return errors.New("guardhttp: Check: no mux")
	}
	var problems []error
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		switch served, err := isServed(mux, pattern); {
		case err != nil:
			problems = append(problems, fmt.Errorf("guardhttp: row %q: %w", pattern, err))
		case !served:
			problems = append(problems, fmt.Errorf("guardhttp: row %q: the mux has no route for it", pattern))
		}
	}
	return errors.Join(problems...)
}

// isServed says whether the row of a pattern applies to any request that mux serves.
func isServed(mux *http.ServeMux, pattern string) (served bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	if err := checkPattern(pattern); err != nil {
		return false, err
	}
	m := newRow(pattern, nil)
	http.NewServeMux().Handle(pattern, m)
	for _, r := range samples(mux, pattern) {
		if m.appliesTo(r, mux) {
			return true, nil
		}
	}
	return false, nil
}

// samples gives requests that match a pattern.
func samples(mux *http.ServeMux, pattern string) (all []*http.Request) {
	host, path := strings.TrimSuffix(pattern, pathOf(pattern)), pathOf(pattern)
	method := ""
	if at := strings.IndexAny(host, " \t"); at >= 0 {
		method, host = host[:at], strings.TrimLeft(host[at:], " \t")
	}
	for _, u := range samplePaths(path) {
		r := &http.Request{Host: host, URL: u}
		for _, method := range methods(mux, r, method) {
			there := r.WithContext(r.Context())
			there.Method = method
			all = append(all, there)
		}
	}
	return all
}

// samplePaths gives URLs that match the path of a pattern. Its placeholders stand for
// themselves: nobody has a route of its own for the order "{id}".
func samplePaths(path string) (all []*url.URL) {
	add := func(path string) {
		segments := strings.Split(path, "/")
		for i, segment := range segments {
			if decoded, err := url.PathUnescape(segment); err == nil {
				segment = decoded
			}
			segments[i] = url.PathEscape(segment)
		}
		if u, err := url.Parse(strings.Join(segments, "/")); err == nil {
			all = append(all, u)
		}
	}
	below := path[:strings.LastIndexByte(path, '/')+1]
	switch {
	case strings.HasSuffix(path, "/{$}"):
		add(below)
	case path == below, strings.HasSuffix(path, "...}"):
		add(below)
		add(below + "{a}")
		add(below + "{a}/{b}")
	default:
		add(path)
	}
	return all
}

// methods gives those that the method of a pattern stands for: without one, the usual ones
// and what mux allows at the path of r.
func methods(mux *http.ServeMux, r *http.Request, method string) []string {
	switch method {
	case "":
	case http.MethodGet:
		return []string{http.MethodGet, http.MethodHead}
	default:
		return []string{method}
	}
	all := []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect,
	}
	unknown := r.WithContext(r.Context())
	unknown.Method = "UNKNOWN"
	h, pattern := handlerFor(unknown, mux)
	if pattern != "" {
		return append(all, unknown.Method)
	}
	answer := discard{}
	h.ServeHTTP(answer, unknown) // 404 or 405, by mux itself
	if allowed := answer.Header().Get("Allow"); allowed != "" {
		all = append(all, strings.Split(allowed, ", ")...)
	}
	return all
}
