package guardweb

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

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

// fail reports why there is no page. The browser keeps its content.
func (h *handler) fail(w http.ResponseWriter, code int, err error) {
	v := page{Title: http.StatusText(code), Status: words(err)}
	if code != http.StatusForbidden && code != http.StatusInternalServerError {
		v.Where = h.inspector.String()
	}
	h.write(w, code, "error", v)
}

// page has the fields of all pages.
type page struct {
	Title   string
	Refresh int64  // ms until the browser refreshes it; 0 is never
	Where   string // the Redis, for users with the right to look
	Status  string // why the content is old
}

func (h *handler) page(title string, refresh time.Duration) page {
	return page{Title: title, Refresh: refresh.Milliseconds(), Where: h.inspector.String()}
}

// moment is a time and its spelling on the page.
type moment struct{ ISO, UTC, Text string }

func clock(at time.Time) moment {
	utc := at.UTC().Format(time.DateTime) + " UTC"
	return moment{at.UTC().Format(time.RFC3339Nano), utc, utc}
}

// ago returns the time from a moment until now, both by the server's clock.
func ago(now, at time.Time) moment {
	if at.IsZero() {
		return moment{Text: "unknown"}
	}
	m := clock(at)
	m.Text = short(max(0, now.Sub(at)))
	return m
}

func left(d time.Duration) string {
	if d == 0 {
		return "no end"
	}
	return short(d)
}

func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Minute)
	}
	text := strings.Replace(d.String(), "m0s", "m", 1)
	return strings.Replace(text, "h0m", "h", 1)
}

const (
	maxRows  = 1000             // locks that the list shows
	longHeld = 10 * time.Minute // the list marks locks that are held for longer
)

// row is a lock in the list.
type row struct {
	Key, Link, Holder, Metadata string
	Others                      int // holders, without the first
	Since                       moment
	Left                        string
	Revoked, Long, Kept         bool // Kept: by a MinHold, its work is done
	Limit                       int
	Waiting                     int    // processes
	Oldest                      string // how long the first process has waited
	Here                        int    // callers of this process that wait
	since                       time.Time
}

type viewList struct {
	page

	Match   string
	Sort    string
	Masked  bool
	By      map[string]string // links to other orders
	Rows    []row
	Broken  []broken
	Limits  []string // what the list omits
	At      moment   // of the list
	Known   bool     // there is a list
	HasMine bool     // callers of this process are counted
}

// broken is a key whose value is not a lock.
type broken struct{ Key, Link, Reason string }

func (h *handler) link(key string) string { return "lock?" + url.Values{"key": {h.word(key)}}.Encode() }

func (h *handler) stepLink(verb, key string, fence uint64) string {
	return verb + "?" + url.Values{"key": {h.word(key)}, "fence": {strconv.FormatUint(fence, 10)}}.Encode()
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
		Match: s.match, Sort: s.sort, Masked: h.mask != nil, By: map[string]string{},
		At: clock(f.at), Known: !f.at.IsZero(), HasMine: len(h.guards) > 0,
	}
	for order := range orders {
		v.By[order] = s.by(order)
	}
	if f.err != nil {
		v.Status = words(f.err)
		if v.Known {
			v.Status += " This is old."
		}
	}
	v.Rows = h.rows(f.locks)
	s.sorted(v.Rows)
	v.Rows = v.Rows[:min(len(v.Rows), maxRows)]
	v.Limits = f.limits(len(v.Rows))
	for _, b := range f.broken {
		v.Broken = append(v.Broken, broken{h.word(b.Key), h.link(b.Key), b.Reason})
	}
	slices.SortFunc(v.Broken, func(a, b broken) int { return cmp.Compare(a.Key, b.Key) })
	return v
}

// waitingHere counts the callers of this process that wait for a key that it holds.
func (h *handler) waitingHere() map[string]int {
	here := map[string]int{}
	for _, g := range h.guards {
		for _, l := range g.Holds() {
			here[l.Key] = max(here[l.Key], l.Waiting)
		}
	}
	return here
}

func (h *handler) rows(locks []inspect.Info) []row {
	rows, here := make([]row, 0, len(locks)), h.waitingHere()
	for _, info := range locks {
		first := info.Holders[0]
		r := row{
			Key: h.word(info.Key), Link: h.link(info.Key), Holder: first.Instance, Metadata: h.metadata(first.Metadata),
			Others: len(info.Holders) - 1, Since: ago(info.Now, first.Since), Left: left(first.Left),
			Kept: first.Depth == 0, Limit: first.Limit, Waiting: info.Queued, Here: here[info.Key],
			Revoked: slices.ContainsFunc(info.Holders, func(holder inspect.Holder) bool { return holder.Revoked }),
		}
		if r.since = first.Since; r.since.IsZero() { // not known
			r.since = info.Now
		}
		r.Long = info.Now.Sub(r.since) > longHeld
		if len(info.Waiting) > 0 {
			r.Oldest = ago(info.Now, info.Waiting[0].Since).Text
		}
		rows = append(rows, r)
	}
	return rows
}

type viewLock struct {
	page

	Key     string // as it is shown
	State   string // free, held, revoked or kept
	Holders []lockHolder
	Record  *lockRecord // nil if there is none
	Waiting []lockWaiter
	Queued  int
	More    int
	Here    int // callers of this process that wait
	Masked  bool
	At      moment
}

type lockHolder struct {
	Holder, Metadata string
	Since            moment
	Left             string
	Fence            uint64
	Depth, Limit     int
	Revoked          bool
	Revoke, Break    string // links, for users with the right to act
}

// lockRecord is the record of guard.Once, without the result.
type lockRecord struct {
	State            inspect.RecordState
	Holder, Metadata string
	Since            moment
	Left             string
	Fence            uint64
	Size             int
	Done             bool
	Forget           string // a link, for users with the right to act, unless the work is in progress
}

type lockWaiter struct {
	Place  int
	Waiter string
	Since  moment
	Asked  moment
	Limit  int
}

func (h *handler) viewLock(key string, info inspect.Info, role Role) viewLock {
	v := viewLock{
		page: h.page(visible(h.word(key)), 2*time.Second), Key: h.word(key), State: "free", Queued: info.Queued,
		More: info.Queued - len(info.Waiting), Here: h.waitingHere()[key], Masked: h.mask != nil, At: clock(info.Now),
	}
	for _, holder := range info.Holders {
		one := lockHolder{
			Holder: holder.Instance, Metadata: h.metadata(holder.Metadata), Since: ago(info.Now, holder.Since),
			Left: left(holder.Left), Fence: holder.Fence, Depth: holder.Depth, Limit: holder.Limit, Revoked: holder.Revoked,
		}
		if role == Act {
			one.Revoke, one.Break = h.stepLink("revoke", key, holder.Fence), h.stepLink("break", key, holder.Fence)
		}
		v.Holders = append(v.Holders, one)
		switch {
		case holder.Revoked:
			v.State = "revoked"
		case v.State == "free" && holder.Depth == 0:
			v.State = "kept"
		case v.State != "revoked":
			v.State = "held"
		}
	}
	if r := info.Record; r != nil {
		v.Record = &lockRecord{
			State: r.State, Holder: r.Instance, Metadata: h.metadata(r.Metadata), Since: ago(info.Now, r.Since),
			Left: left(r.Left), Fence: r.Fence, Size: r.Size, Done: r.State == inspect.RecordDone,
		}
		if role == Act && r.State != inspect.RecordInProgress {
			v.Record.Forget = h.stepLink("forget", key, r.Fence)
		}
	}
	for i, w := range info.Waiting {
		v.Waiting = append(v.Waiting, lockWaiter{i + 1, w.Instance, ago(info.Now, w.Since), ago(info.Now, w.Asked), w.Limit})
	}
	return v
}

// visible spells out characters that cannot be seen, or that turn the text around them. The markup alone does not stop
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
