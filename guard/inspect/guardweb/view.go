package guardweb

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
)

//go:embed static
var static embed.FS

//go:embed templates
var texts embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{"visible": visible}).ParseFS(texts, "templates/*.html"))

// write renders a page before any of it is sent.
func (h *handler) write(w http.ResponseWriter, code int, name string, data any) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name+".html", data); err != nil {
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes()) // the client may be gone
}

// page is what all pages have.
type page struct {
	Title   string
	Refresh int64  // ms until it is asked for again; 0 is never
	Where   string // which Redis it is, for users with the right to look
	Status  string // what keeps it from being new
	Silent  bool   // it has nothing to show: what is shown may stay
}

func (h *handler) page(title string, refresh time.Duration) page {
	return page{Title: title, Refresh: refresh.Milliseconds(), Where: h.inspector.String()}
}

type viewError struct {
	page
	Text string
}

// maxRows is how many holders the list shows.
const maxRows = 1000

// row is a holder in the list.
type row struct {
	Key, Link, Name, Holder, Metadata string
	Since                             when
	Left                              bar
	Revoked                           bool
	Limit, Depth                      int
	Waiting                           int
	Oldest                            string // how long the first has waited
	Here                              int    // callers of this process that wait
	Fence                             uint64
	held, left                        time.Duration
}

// when is a time on the server's clock, and how long ago it was.
type when struct{ At, Ago string }

func since(now, at time.Time) when {
	if at.IsZero() {
		return when{Ago: "unknown"}
	}
	return when{at.UTC().Format(time.RFC3339Nano), short(max(0, now.Sub(at)))}
}

// bar is what is left of a lease.
type bar struct {
	Left, Of int64 // ms
	Text     string
}

// spans are usual ttls, for the length of a bar: Redis returns only what is left of a ttl.
var spans = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 6 * time.Hour, guard.MaxTTL,
}

func barOf(left time.Duration) bar {
	if left == 0 {
		return bar{Left: 1, Of: 1, Text: "no end"}
	}
	of := left
	for _, span := range spans {
		if span >= left {
			of = span
			break
		}
	}
	return bar{left.Milliseconds(), of.Milliseconds(), short(left)}
}

func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// own is a lease of this process.
type own struct {
	Key, Link, Name string
	Since           when
	Left            bar
	Fence           uint64
	Depth, Waiting  int
}

// broken is a key that is no lock, or free, and has a record.
type broken struct{ Key, Link, Reason string }

type viewList struct {
	page
	Match   string
	Sort    string // if it is not the usual one
	Masked  bool
	Heads   []head
	Rows    []row
	Broken  []broken
	Records []broken // of keys that are free: the list knows none but that of one whole key
	Limits  []string // what the list leaves out
	At      string   // empty if there is no list
	Now     string
	HasOwn  bool
	Own     []own
	Graphs  []graph
}

func (h *handler) link(key string) string {
	return "lock?" + url.Values{"key": {h.word(key)}}.Encode()
}

func (h *handler) metadata(text string) string {
	if h.mask != nil {
		return ""
	}
	return text
}

func (h *handler) viewList(s search, f found) viewList {
	v := viewList{
		page:  h.page("Locks", min(max(2*time.Second, f.pause), 2*probeTime)),
		Match: s.match, Masked: h.mask != nil, Heads: s.heads(),
	}
	if v.Status = f.outage(); !f.at.IsZero() {
		v.At = clock(f.at)
	}
	if s.by.name != columns[0].name || s.down {
		v.Sort = s.param()
	}
	mine := h.mine()
	v.Rows = h.rows(f, mine)
	s.sort(v.Rows)
	all := len(v.Rows)
	v.Rows = v.Rows[:min(all, maxRows)]
	v.Limits = f.limits(len(v.Rows), all)
	for _, b := range f.broken {
		v.Broken = append(v.Broken, broken{h.word(b.Key), h.link(b.Key), b.Reason})
	}
	slices.SortFunc(v.Broken, func(a, b broken) int { return cmp.Compare(a.Key, b.Key) })
	for _, info := range f.locks {
		if len(info.Holders) == 0 && info.Record != nil {
			v.Records = append(v.Records, broken{h.word(info.Key), h.link(info.Key), string(info.Record.State)})
		}
	}
	if h.leases != nil {
		v.HasOwn, v.Own, v.Now = true, mine, clock(time.Now())
		for i, l := range v.Own {
			v.Own[i].Key, v.Own[i].Link = h.word(l.Key), h.link(l.Key)
		}
	}
	if h.history != nil {
		v.Graphs = graphs(h.history.byName())
	}
	return v
}

// mine are the leases of this process, as far as they are known.
func (h *handler) mine() []own {
	if h.leases == nil {
		return nil
	}
	return h.leases()
}

func (h *handler) rows(f found, mine []own) (rows []row) {
	names, here := map[string]string{}, map[string]int{}
	for _, l := range mine {
		names[l.Key], here[l.Key] = l.Name, max(here[l.Key], l.Waiting)
	}
	gone := time.Since(f.at) // the list is that old
	for _, info := range f.locks {
		now := info.Now.Add(gone)
		for _, holder := range info.Holders {
			r := row{
				Key: h.word(info.Key), Link: h.link(info.Key), Name: names[info.Key],
				Holder: holder.Instance, Metadata: h.metadata(holder.Metadata),
				Since: since(now, holder.Since), Left: barOf(holder.Left), held: now.Sub(holder.Since), left: holder.Left,
				Revoked: holder.Revoked, Limit: holder.Limit, Depth: holder.Depth, Fence: holder.Fence,
				Waiting: info.Queued, Here: here[info.Key],
			}
			if holder.Left == 0 { // without an end
				r.left = math.MaxInt64
			}
			if len(info.Waiting) > 0 {
				r.Oldest = since(now, info.Waiting[0].Since).Ago
			}
			rows = append(rows, r)
		}
	}
	return rows
}

type viewLock struct {
	page
	Key     string // as it is shown
	Notice  string // what was just done
	Mine    bool   // this process holds it
	Here    int    // callers of this process that wait for that hold
	Holders []lockHolder
	Record  *lockRecord // nil if there is none
	Waiting []lockWaiter
	Queued  int
	More    int
	Last    uint64
	Now     string
	Seen    bool
	Events  []lockEvent
}

type lockHolder struct {
	Holder, Metadata string
	Since            when
	Left             bar
	Fence            uint64
	Depth, Limit     int
	Revoked          bool
	Revoke, Break    string // links, for users with that right
}

type lockWaiter struct {
	Place  int
	Waiter string
	Since  when
	Asked  when
	Limit  int
}

type lockEvent struct {
	At, Outcome, Name, Took string
	Fence                   uint64
}

func (h *handler) viewLock(key string, info inspect.Info, role Role, notice string) viewLock {
	v := viewLock{
		page: h.page(visible(h.word(key)), 2*time.Second), Key: h.word(key), Notice: notice,
		Queued: info.Queued, More: info.Queued - len(info.Waiting), Last: info.LastFence, Now: clock(info.Now),
		Record: h.viewRecord(key, info, role),
	}
	for _, l := range h.mine() {
		if l.Key == key {
			v.Mine, v.Here = true, max(v.Here, l.Waiting)
		}
	}
	for _, holder := range info.Holders {
		one := lockHolder{
			Holder: holder.Instance, Metadata: h.metadata(holder.Metadata), Since: since(info.Now, holder.Since),
			Left: barOf(holder.Left), Fence: holder.Fence, Depth: holder.Depth, Limit: holder.Limit, Revoked: holder.Revoked,
		}
		if role == Act {
			query := "?" + url.Values{"key": {h.word(key)}, "fence": {strconv.FormatUint(holder.Fence, 10)}}.Encode()
			one.Revoke, one.Break = "revoke"+query, "break"+query
		}
		v.Holders = append(v.Holders, one)
	}
	for i, w := range info.Waiting {
		v.Waiting = append(v.Waiting, lockWaiter{i + 1, w.Instance, since(info.Now, w.Since), since(info.Now, w.Asked), w.Limit})
	}
	if h.history != nil {
		v.Seen = true
		for _, e := range h.history.of(key, 50) {
			v.Events = append(v.Events, lockEvent{e.at.UTC().Format(time.TimeOnly), e.outcome, e.name, short(e.elapsed), e.fence})
		}
	}
	return v
}

// visible spells out what cannot be seen and turns the text around it. The markup alone does not stop
// that: an U+2069 ends its isolation.
func visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		if unicode.Is(unicode.Bidi_Control, r) || unicode.IsControl(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

type viewConfirm struct {
	page
	Verb, Key, Link, Holder string
	Since                   when
	Fence                   uint64
	Break                   bool
}

func (h *handler) viewConfirm(key, verb string, holder inspect.Holder) viewConfirm {
	return viewConfirm{
		page: h.page(verb+" "+visible(h.word(key)), 0), Verb: verb, Key: h.word(key), Link: h.link(key),
		Holder: holder.Instance, Since: since(time.Now(), holder.Since), Fence: holder.Fence, Break: verb == "break",
	}
}

// graph is what was seen of a name.
type graph struct {
	Name             string
	Holding, Waiting int
	Lost             int
	Holds            []stroke // how many
	Hold, Wait       []stroke // the longest
	HoldsText        string
	HoldText         string
	WaitText         string
}

// stroke is a bar of a graph of 120 by 24.
type stroke struct {
	X, Y, Height string
	Lost         bool
}

func graphs(all []seen) []graph {
	out := make([]graph, 0, len(all))
	for _, s := range all {
		g := graph{Name: s.name, Holding: s.holding, Waiting: s.waiting}
		var holds, hold, wait [buckets]float64
		total := 0
		for i, b := range s.buckets {
			total += b.holds
			g.Lost += b.lost
			holds[i], hold[i], wait[i] = float64(b.holds), b.hold.Seconds(), b.wait.Seconds()
		}
		g.Holds, g.Hold, g.Wait = strokes(holds), strokes(hold), strokes(wait)
		for i, b := range s.buckets {
			if b.lost > 0 {
				for n := range g.Holds {
					if g.Holds[n].X == strokeX(i) {
						g.Holds[n].Lost = true
					}
				}
			}
		}
		g.HoldsText = fmt.Sprintf("%d in 5 minutes", total)
		g.HoldText, g.WaitText = longest(hold), longest(wait)
		out = append(out, g)
	}
	return out
}

func longest(values [buckets]float64) string {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	return short(time.Duration(most*1e9)) + " at most"
}

func strokeX(i int) string { return strconv.Itoa(2 * i) }

// strokes leaves out what is zero.
func strokes(values [buckets]float64) (out []stroke) {
	const height = 24.0
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	for i, v := range values {
		if v <= 0 {
			continue
		}
		size := max(1, v/most*height)
		out = append(out, stroke{X: strokeX(i), Y: number(height - size), Height: number(size)})
	}
	return out
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
