package guardweb

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/internal/glob"
)

// search is the search of a viewer in the list.
type search struct {
	match string
	glob  glob.Glob
	sort  string // one of orders
}

// usualSort puts locks with waiting callers first.
const usualSort = "waiting"

// orders are the orders of the list. Equal rows are sorted by their shown keys.
var orders = map[string]func(a, b row) int{
	"waiting": func(a, b row) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Here, a.Here), a.since.Compare(b.since))
	},
	"held": func(a, b row) int { return a.since.Compare(b.since) }, // each lock was read at its own moment
	"key":  func(row, row) int { return 0 },
}

// inputError names a field of a request, and its bound.
type inputError string

func (e inputError) Error() string { return string(e) }

func (h *handler) readSearch(r *http.Request) (s search, err error) {
	query := r.URL.Query()
	s.match, s.sort = query.Get("match"), cmp.Or(query.Get("sort"), usualSort)
	if s.glob, err = glob.New(s.match); err != nil {
		return s, inputError("match " + err.Error())
	}
	if !utf8.ValidString(s.match) {
		return s, inputError("match is not UTF-8")
	}
	if h.mask != nil && strings.ContainsAny(s.match, glob.Special) {
		return s, inputError("match must be a whole key, without any of " + glob.Special + ": this page hides keys")
	}
	if orders[s.sort] == nil {
		return s, inputError("sort is none of waiting, held, key")
	}
	return s, nil
}

// oneKey returns whether the search is for one whole key, which needs no list.
func (s search) oneKey() bool { return s.match != "" && !strings.ContainsAny(s.match, glob.Special) }

// by returns the address of the same search in another order.
func (s search) by(order string) string {
	return "./?" + url.Values{"match": {s.match}, "sort": {order}}.Encode()
}

// sorted puts rows into the order of s.
func (s search) sorted(rows []row) {
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(orders[s.sort](a, b), cmp.Compare(a.Key, b.Key)) })
}

// filter stops when ctx ends: the viewer has gone.
func filter(ctx context.Context, f found, matches func(key string) bool) (locks []inspect.Info, broken []*inspect.FormatError) {
	for _, info := range f.locks {
		if ctx.Err() != nil {
			return nil, nil
		}
		if matches(info.Key) {
			locks = append(locks, info)
		}
	}
	for _, b := range f.broken {
		if matches(b.Key) {
			broken = append(broken, b)
		}
	}
	return locks, broken
}

// limits returns what the list omits.
func (f found) limits(shown int) (texts []string) {
	if all := len(f.locks); all > shown {
		texts = append(texts, fmt.Sprintf("%d of %d are shown. Search for fewer keys.", shown, all))
	}
	if f.more {
		texts = append(texts, fmt.Sprintf("More than %d locks are held, and this list knows no others. Search for one whole key.", maxKept))
	}
	if f.cut {
		texts = append(texts, fmt.Sprintf("Redis has more keys than can be read in %v: locks are missing here. Search for one whole key.", listTime))
	}
	return texts
}
