package httprequest

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// MuxHas says whether mux was given a pattern. A ServeMux does not list its patterns, so it is
// asked for made-up requests that only this one should match.
func MuxHas(mux *http.ServeMux, pattern string) bool {
	return slices.ContainsFunc(samples(pattern), func(r *http.Request) bool {
		_, chosen := mux.Handler(r)
		return chosen == pattern
	})
}

// PatternHas says whether a pattern has {name}, {name...} or, as that of another router
// may, {name:regexp} or :name.
func PatternHas(pattern, name string) bool {
	quoted := regexp.QuoteMeta(name)
	return regexp.MustCompile(`\{` + quoted + `[}.:]|/:` + quoted + `(/|$)`).MatchString(pattern)
}

var wildcard = regexp.MustCompile(`\{[^{}]*\}`)

// samples gives requests that a pattern matches, and hardly another one. In them, its
// wildcards stand for themselves: nobody has a route of its own for the order "{id}".
func samples(pattern string) (all []*http.Request) {
	method, rest := "SAMPLE", pattern // what has a method of its own is another pattern
	if at := strings.IndexAny(pattern, " \t"); at >= 0 {
		method, rest = pattern[:at], strings.TrimLeft(pattern[at:], " \t")
	}
	host, path, _ := strings.Cut(rest, "/")
	path, exact := strings.CutSuffix("/"+path, "{$}")
	tails := []string{""}
	if begin, many := strings.CutSuffix(path, "...}"); many || !exact && strings.HasSuffix(path, "/") {
		path = begin[:strings.LastIndexByte(begin, '/')+1]
		tails = []string{"", "{a}", "{a}/{b}", "{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}"}
	}
	for _, tail := range tails {
		u, err := url.Parse(wildcard.ReplaceAllStringFunc(path+tail, url.PathEscape))
		if err != nil { // "/100%", say
			u = &url.URL{Path: path + tail}
		}
		all = append(all, &http.Request{Method: method, Host: host, URL: u})
	}
	return all
}
