package guardweb

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
)

// Role is what a request may do.
type Role int

// The roles. Act includes View.
const (
	None Role = iota // nothing: it is answered 403
	View             // look
	Act              // look, revoke, break and forget
)

// Option configures a Handler. A nil Option is ignored.
type Option func(*handler) error

// Authorize says what a request may do. It is called once for each request, from many
// goroutines at a time. Without it, every request may View. A nil function is an error.
func Authorize(role func(r *http.Request) Role) Option {
	return func(h *handler) error {
		if role == nil {
			return &guard.OptionError{Option: "Authorize", Reason: "was given a nil function"}
		}
		h.role = role
		return nil
	}
}

// MaskKeys shows a made-up word in place of each key, also in links, and no metadata. A key
// keeps its word until the process ends. A viewer that knows a key can still ask for it, by all
// of it: there are no wildcards, and the list is in the order of the words.
func MaskKeys() Option {
	return func(h *handler) error {
		h.mask = newMask()
		return nil
	}
}

// Show adds what h saw: graphs of waits and holds by name, and the history of a key. A nil
// History is an error.
func Show(h *History) Option {
	return func(to *handler) error {
		if h == nil {
			return &guard.OptionError{Option: "Show", Reason: "was given a nil History"}
		}
		to.history = h
		return nil
	}
}

// askTime bounds the questions about one lock.
const askTime = 5 * time.Second

// handler is the page.
type handler struct {
	inspector *inspect.Inspector
	role      func(r *http.Request) Role
	mask      *mask // nil if keys are shown
	leases    func() []own
	history   *History
	list      *list
	secret    []byte // of receipts
	err       error  // what Handler was given
}

// Handler serves the page. If an option is out of its bounds, or the Inspector is nil or was
// made with a bad option, every answer is a 500 that says so.
func Handler(i *inspect.Inspector, opts ...Option) http.Handler {
	h := &handler{inspector: i, role: func(*http.Request) Role { return View }, list: newList(i, listTime), secret: newSecret()}
	for _, opt := range opts {
		if opt != nil {
			h.err = cmp.Or(h.err, opt(h))
		}
	}
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		secure(w)
		h.fail(w, http.StatusForbidden, errors.New("the request comes from another site"))
	}))
	return protection.Handler(h)
}

// policy lets the page load what it brings, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func secure(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// ServeHTTP goes by the last part of the path: the page does not know where it is mounted.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w)
	if h.err != nil {
		h.fail(w, http.StatusInternalServerError, h.err)
		return
	}
	role, last := h.role(r), lastPart(r)
	switch {
	case role != View && role != Act:
		h.fail(w, http.StatusForbidden, errors.New("you may not see this page"))
	case last == "revoke" || last == "break" || last == "forget":
		h.step(w, r, last, role)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		h.fail(w, http.StatusMethodNotAllowed, errors.New("this page is for looking"))
	case last == "":
		h.showList(w, r)
	case last == "lock":
		h.showLock(w, r, role)
	case last == "style.css" || last == "page.js" || last == "icon.svg":
		w.Header().Set("Cache-Control", "max-age=300")
		http.ServeFileFS(w, r, static, "static/"+last)
	case r.URL.Path == "": // the prefix itself, stripped: links would go beside it
		w.Header().Set("Location", last+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
	default:
		h.fail(w, http.StatusNotFound, errors.New("there is no such page"))
	}
}

// lastPart is empty for the page's root.
func lastPart(r *http.Request) string {
	p := r.URL.Path
	if p == "" { // all of it was stripped
		if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
			p = u.Path
		}
	}
	if p == "" || strings.HasSuffix(p, "/") {
		return ""
	}
	return path.Base(p)
}

func (h *handler) showList(w http.ResponseWriter, r *http.Request) {
	s, err := h.readSearch(r)
	if err != nil {
		h.fail(w, http.StatusBadRequest, err)
		return
	}
	f := h.find(r.Context(), s)
	switch {
	case f.err == nil:
		h.write(w, http.StatusOK, "list", h.viewList(s, f))
	case errors.Is(f.err, guard.ErrOption):
		h.fail(w, status(f.err), f.err)
	default: // what is known without Redis is shown
		h.write(w, http.StatusServiceUnavailable, "list", h.viewList(s, f))
	}
}

func (h *handler) showLock(w http.ResponseWriter, r *http.Request, role Role) {
	query := r.URL.Query()
	key, info, err := h.get(r.Context(), query.Get("key"))
	if err != nil {
		h.failed(w, err)
		return
	}
	h.write(w, http.StatusOK, "lock", h.viewLock(key, info, role, h.notice(query.Get("done"), key, time.Now())))
}

// step asks whether revoke, break or forget is meant (GET), and does it (POST).
func (h *handler) step(w http.ResponseWriter, r *http.Request, verb string, role Role) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, POST")
		h.fail(w, http.StatusMethodNotAllowed, errors.New("want GET or POST"))
		return
	case role != Act:
		h.fail(w, http.StatusForbidden, errors.New("you may look, and not end a hold or forget a record"))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	form := r.URL.Query()
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			h.fail(w, http.StatusBadRequest, errors.New("the form cannot be read: it has at most 64 KiB"))
			return
		}
		form = r.PostForm
	}
	fence, err := strconv.ParseUint(form.Get("fence"), 10, 64)
	if err != nil {
		h.fail(w, http.StatusBadRequest, errors.New("fence is not a whole number from 0 to 2^64-1"))
		return
	}
	if r.Method == http.MethodPost {
		do := map[string]func(context.Context, string, uint64) (bool, error){
			"revoke": h.inspector.Revoke, "break": h.inspector.Break, "forget": h.forget(form.Get("state")),
		}[verb]
		h.end(w, r, verb, form.Get("key"), fence, do)
		return
	}
	key, info, err := h.get(r.Context(), form.Get("key"))
	if err != nil {
		h.failed(w, err)
		return
	}
	if verb == "forget" {
		h.confirmForget(w, key, info, fence)
		return
	}
	for _, holder := range info.Holders {
		if holder.Fence == fence {
			h.write(w, http.StatusOK, "confirm", h.viewConfirm(key, verb, holder))
			return
		}
	}
	h.fail(w, http.StatusNotFound, errGone)
}

var errGone = errors.New("that hold is not there any more")

func (h *handler) end(
	w http.ResponseWriter, r *http.Request, verb, given string, fence uint64, do func(context.Context, string, uint64) (bool, error),
) {
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	key, err := h.unmask(ctx, given)
	if err != nil {
		h.fail(w, status(err), err)
		return
	}
	there, err := do(ctx, key, fence)
	switch {
	case err != nil:
		h.fail(w, status(err), err)
		return
	case !there:
		h.fail(w, http.StatusNotFound, errGone)
		return
	}
	if info, err := h.inspector.Get(ctx, key); err == nil {
		h.list.put(info)
	}
	w.Header().Set("Location", "lock?"+url.Values{"key": {given}, "done": {h.receipt(verb, key, fence, time.Now())}}.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// get looks at the lock of a key, or of the word that stands for one.
func (h *handler) get(ctx context.Context, given string) (string, inspect.Info, error) {
	ctx, cancel := context.WithTimeout(h.list.noteAnswers(ctx), askTime)
	defer cancel()
	key, err := h.unmask(ctx, given)
	if err != nil {
		return "", inspect.Info{}, err
	}
	info, err := h.inspector.Get(ctx, key)
	return key, info, err
}

func status(err error) int {
	switch {
	case errors.Is(err, errGone), errors.Is(err, errNoRecord):
		return http.StatusNotFound
	case errors.Is(err, inspect.ErrInProgress):
		return http.StatusConflict
	case errors.Is(err, guard.ErrKey):
		return http.StatusBadRequest
	case errors.Is(err, guard.ErrOption):
		return http.StatusInternalServerError
	case errors.Is(err, inspect.ErrFormat):
		return http.StatusUnprocessableEntity
	}
	return http.StatusServiceUnavailable
}

func (h *handler) fail(w http.ResponseWriter, code int, err error) {
	h.write(w, code, "error", viewError{page: page{Title: http.StatusText(code)}, Text: words(err)})
}

// failed says that a lock cannot be shown now. The page asks again by itself.
func (h *handler) failed(w http.ResponseWriter, err error) {
	code := status(err)
	v := viewError{page: h.page(http.StatusText(code), 0), Text: words(err)}
	if code == http.StatusServiceUnavailable {
		f, _ := h.list.current()
		f.err = err
		v.Title, v.Status, v.Text, v.Silent, v.Refresh = "No answer", f.outage(), "", true, 2000
	}
	h.write(w, code, "error", v)
}
