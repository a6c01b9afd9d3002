package guardweb

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
)

//go:embed static
var static embed.FS

//go:embed templates
var texts embed.FS

var templates = template.Must(template.ParseFS(texts, "templates/*.html"))

// write renders a page before any of it is sent.
func (h *handler) write(w http.ResponseWriter, code int, name string, data any) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name+".html", data); err != nil {
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes()) // whoever asked may be gone
}

// page is what all pages have.
type page struct {
	Title   string
	Refresh int64 // ms until it is asked for again; 0 is never
}

type viewError struct {
	page
	Text string
}

// row is a holder in the list.
type row struct {
	Key, Link, Name, Holder, Metadata string
	Since                             when
	Left                              bar
	Revoked                           bool
	Limit, Depth                      int
	Waiting                           int
	Oldest                            string // how long the first has waited
	Fence                             uint64
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

// spans are what a ttl may be, for the length of a bar: Redis tells what is left only.
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

// broken is a key that is no lock.
type broken struct{ Key, Link, Reason string }

type viewList struct {
	page
	Match  string
	Rows   []row
	Broken []broken
	More   bool
	At     string
	HasOwn bool
	Own    []own
	Graphs []graph
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

func (h *handler) viewList(match string, f *found) viewList {
	v := viewList{
		page:  page{"Locks", max(2*time.Second, listShare*f.took).Milliseconds()},
		Match: match, More: f.more, At: f.at.UTC().Format(time.TimeOnly) + " UTC",
	}
	names := map[string]string{}
	if h.leases != nil {
		v.HasOwn, v.Own = true, h.leases()
		for i, l := range v.Own {
			names[l.Key] = l.Name
			v.Own[i].Key, v.Own[i].Link = h.word(l.Key), h.link(l.Key)
		}
	}
	gone := time.Since(f.at) // the list is that old
	for _, info := range f.locks {
		for _, holder := range info.Holders {
			r := row{
				Key: h.word(info.Key), Link: h.link(info.Key), Name: names[info.Key],
				Holder: holder.Instance, Metadata: h.metadata(holder.Metadata),
				Since: since(info.Now.Add(gone), holder.Since), Left: barOf(holder.Left),
				Revoked: holder.Revoked, Limit: holder.Limit, Depth: holder.Depth, Waiting: info.Queued, Fence: holder.Fence,
			}
			if len(info.Waiting) > 0 {
				r.Oldest = since(info.Now.Add(gone), info.Waiting[0].Since).Ago
			}
			v.Rows = append(v.Rows, r)
		}
	}
	for _, b := range f.broken {
		v.Broken = append(v.Broken, broken{h.word(b.Key), h.link(b.Key), b.Reason})
	}
	if h.history != nil {
		v.Graphs = graphs(h.history.byName())
	}
	return v
}

type viewLock struct {
	page
	Key     string // as it is shown
	Told    string // what was just done
	Holders []lockHolder
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
	Revoke, Break    string // links, for who may
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

func (h *handler) viewLock(key string, info inspect.Info, role Role, done string) viewLock {
	v := viewLock{
		page: page{h.word(key), 2000}, Key: h.word(key), Queued: info.Queued, More: info.Queued - len(info.Waiting),
		Last: info.LastFence, Now: info.Now.UTC().Format(time.TimeOnly) + " UTC",
	}
	switch done {
	case "revoke":
		v.Told = "The holder was told to end. The key stays taken until it has, or until its lease is over."
	case "break":
		v.Told = "The hold was broken: the key went to whoever was first in the queue."
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

type viewConfirm struct {
	page
	Verb, Key, Link, Holder string
	Since                   when
	Fence                   uint64
	Break                   bool
}

func (h *handler) viewConfirm(key, verb string, holder inspect.Holder) viewConfirm {
	return viewConfirm{
		page: page{Title: verb + " " + h.word(key)}, Verb: verb, Key: h.word(key), Link: h.link(key),
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
