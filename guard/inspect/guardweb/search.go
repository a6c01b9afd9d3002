package guardweb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/internal/glob"
)

// search is what a viewer asks the list for.
type search struct {
	match string
	glob  glob.Glob
	by    column
	down  bool
}

// column is one of the list.
type column struct {
	name, label string
	compare     func(a, b row) int
	downFirst   bool // the first click shows the greatest
}

var columns = []column{
	{"key", "Key", func(a, b row) int { return cmp.Compare(a.Key, b.Key) }, false},
	{"name", "Name", func(a, b row) int { return cmp.Compare(a.Name, b.Name) }, false},
	{"holder", "Holder", func(a, b row) int { return cmp.Compare(a.Holder, b.Holder) }, false},
	{"for", "For", func(a, b row) int { return cmp.Compare(a.held, b.held) }, true},
	{"left", "Left", func(a, b row) int { return cmp.Compare(a.left, b.left) }, false},
	{"waiting", "Processes waiting", func(a, b row) int { return cmp.Compare(a.Waiting, b.Waiting) }, true},
	{"fence", "Fence", func(a, b row) int { return cmp.Compare(a.Fence, b.Fence) }, false},
}

// inputError says which field of a request is out of which bound.
type inputError string

func (e inputError) Error() string { return string(e) }

func (h *handler) readSearch(r *http.Request) (s search, err error) {
	query := r.URL.Query()
	s.match = query.Get("match")
	if s.glob, err = glob.New(s.match); err != nil {
		return s, inputError("match " + err.Error())
	}
	if !utf8.ValidString(s.match) {
		return s, inputError("match is not UTF-8")
	}
	if h.mask != nil && strings.ContainsAny(s.match, glob.Special) {
		return s, inputError("match must be a whole key, without any of " + glob.Special + ": this page hides keys")
	}
	by, down := strings.CutPrefix(cmp.Or(query.Get("sort"), columns[0].name), "-")
	i := slices.IndexFunc(columns, func(c column) bool { return c.name == by })
	if i < 0 {
		return s, inputError("sort is none of key, name, holder, for, left, waiting, fence, with or without a - before it")
	}
	s.by, s.down = columns[i], down
	return s, nil
}

// exact says that the search is for one key: that needs no list.
func (s search) exact() bool { return s.match != "" && !strings.ContainsAny(s.match, glob.Special) }

// find gives the locks that match.
func (h *handler) find(ctx context.Context, s search) found {
	if !s.exact() {
		f := h.list.get(ctx)
		f.locks, f.broken = filter(ctx, f, s.glob.Matches)
		return f
	}
	key, info, err := h.get(ctx, s.match)
	f, _ := h.list.current()
	var format *inspect.FormatError
	switch {
	case errors.Is(err, guard.ErrStore):
		f.err = err
		f.locks, f.broken = filter(ctx, f, func(other string) bool { return other == key })
		return f
	case errors.As(err, &format):
		return found{at: time.Now(), broken: []*inspect.FormatError{format}}
	case errors.Is(err, errGone):
		return found{at: time.Now()}
	case err != nil:
		return found{err: err}
	}
	return found{at: time.Now(), locks: []inspect.Info{info}}
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
		if ctx.Err() == nil && matches(b.Key) {
			broken = append(broken, b)
		}
	}
	return locks, broken
}

// sort puts rows in order. Those that are equal go by what is shown of their keys.
func (s search) sort(rows []row) {
	slices.SortFunc(rows, func(a, b row) int {
		order := s.by.compare(a, b)
		if s.down {
			order = -order
		}
		return cmp.Or(order, columns[0].compare(a, b), cmp.Compare(a.Fence, b.Fence))
	})
}

// head is a column's title, and the way to a list that it sorts.
type head struct{ Label, Link, Sorted string }

func (s search) heads() []head {
	all := make([]head, 0, len(columns))
	for _, c := range columns {
		one, next := head{Label: c.label}, search{by: c, down: c.downFirst}
		if c.name == s.by.name {
			one.Sorted, next.down = "ascending", !s.down
			if s.down {
				one.Sorted = "descending"
			}
		}
		one.Link = "./?" + url.Values{"match": {s.match}, "sort": {next.param()}}.Encode()
		all = append(all, one)
	}
	return all
}

// param is how a link names the order.
func (s search) param() string {
	if s.down {
		return "-" + s.by.name
	}
	return s.by.name
}

func (f found) limits(shown, all int) (texts []string) {
	if all > shown {
		texts = append(texts, fmt.Sprintf("%d of %d are shown. Look for fewer keys.", shown, all))
	}
	if f.more {
		texts = append(texts, fmt.Sprintf("More than %d locks are held, and this list knows no others. Look for one whole key.", maxKept))
	}
	if f.cut {
		texts = append(texts, fmt.Sprintf("Redis has more keys than can be looked through in %v: this list is not whole. Look for one whole key.", listTime))
	}
	return texts
}
