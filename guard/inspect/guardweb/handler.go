package guardweb

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
)

// Role is the right of a request.
type Role int

// The roles. Act includes View.
const (
	None Role = iota // nothing: the answer is 403
	View             // look
	Act              // look, revoke, break and forget
)

// Option configures a Handler. A nil Option is ignored.
type Option func(*handler) error

// Authorize sets the function that returns the Role of a request. The Handler calls it once for each request,
// from many goroutines. A nil function is an error.
func Authorize(role func(r *http.Request) Role) Option {
	return func(h *handler) error {
		if role == nil {
			return &guard.OptionError{Option: "Authorize", Reason: "was given a nil function"}
		}
		h.authorize = role
		return nil
	}
}

// ReadOnly lets no request revoke, break or forget: [Act] counts as [View]. Without [Authorize], every request
// may look.
func ReadOnly() Option {
	return func(h *handler) error {
		h.readOnly = true
		return nil
	}
}

// MaskKeys shows a made-up word in place of each key, also in links, and no metadata. A key
// has the same word until the process ends. A viewer that knows a whole key can still search for
// it: there are no wildcards, and the list sorts by the words.
func MaskKeys() Option {
	return func(h *handler) error {
		h.mask = newMask()
		return nil
	}
}

// Leases shows how many callers of g wait for a key that g holds: Redis does not know of them. It sends
// nothing to Redis. A nil Guard is an error.
func Leases(g *guard.Guard) Option {
	return func(h *handler) error {
		if g == nil {
			return &guard.OptionError{Option: "Leases", Reason: "was given a nil Guard"}
		}
		h.guards = append(h.guards, g)
		return nil
	}
}

// askTime bounds the questions about one lock.
const askTime = 5 * time.Second

// handler is the page.
type handler struct {
	inspector *inspect.Inspector
	authorize func(r *http.Request) Role // nil if every request may look
	readOnly  bool
	mask      *mask // nil if keys are shown
	guards    []*guard.Guard
	list      *list
}

// Handler serves the page. If neither [Authorize] nor [ReadOnly] is given, an option is out of its bounds, or the
// Inspector is nil or was made with a bad option, every answer is a 500 that says so.
func Handler(i *inspect.Inspector, opts ...Option) http.Handler {
	h := &handler{inspector: i, list: newList(i, listTime)}
	var err error
	for _, opt := range opts {
		if opt != nil {
			err = cmp.Or(err, opt(h))
		}
	}
	if err == nil && h.authorize == nil && !h.readOnly {
		err = &guard.OptionError{Option: "Authorize", Reason: "is missing: the page needs Authorize or ReadOnly"}
	}
	if err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			secure(w)
			h.fail(w, http.StatusInternalServerError, err)
		})
	}
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		secure(w)
		h.fail(w, http.StatusForbidden, errors.New("the request comes from another site"))
	}))
	return protection.Handler(h)
}

// policy lets the page load its own files, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func secure(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

func (h *handler) role(r *http.Request) Role {
	role := View
	if h.authorize != nil {
		role = h.authorize(r)
	}
	if role == Act && h.readOnly {
		return View
	}
	return role
}

// ServeHTTP chooses by the last part of the path, because the page does not know where it is mounted.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w)
	role, last := h.role(r), lastPart(r)
	switch {
	case role != View && role != Act:
		h.fail(w, http.StatusForbidden, errors.New("you may not see this page"))
	case last == "revoke" || last == "break" || last == "forget":
		h.step(w, r, last, role)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		h.fail(w, http.StatusMethodNotAllowed, errors.New("want GET"))
	case last == "":
		h.showList(w, r)
	case last == "lock":
		h.showLock(w, r, role)
	case last == "style.css" || last == "page.js" || last == "icon.svg":
		w.Header().Set("Cache-Control", "max-age=300")
		http.ServeFileFS(w, r, static, "static/"+last)
	case r.URL.Path == "": // the prefix itself, stripped: relative links need its slash
		redirect(w, http.StatusPermanentRedirect, last+"/")
	default:
		h.fail(w, http.StatusNotFound, errors.New("there is no such page"))
	}
}

// redirect sends a relative address: http.Redirect would make it absolute, without a prefix that was stripped.
func redirect(w http.ResponseWriter, code int, location string) {
	w.Header().Set("Location", location)
	w.WriteHeader(code)
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
	if s.oneKey() {
		key, err := h.unmask(s.match)
		if err != nil {
			h.fail(w, status(err), err)
			return
		}
		redirect(w, http.StatusSeeOther, h.link(key))
		return
	}
	f := h.list.get(r.Context())
	code := http.StatusOK
	if f.err != nil { // the last list is shown
		code = status(f.err)
	}
	f.locks, f.broken = filter(r.Context(), f, s.glob.Matches)
	h.write(w, code, "list", h.viewList(s, f))
}

func (h *handler) showLock(w http.ResponseWriter, r *http.Request, role Role) {
	key, info, err := h.get(r.Context(), r.URL.Query().Get("key"))
	if err != nil {
		h.fail(w, status(err), err)
		return
	}
	h.write(w, http.StatusOK, "lock", h.viewLock(key, info, role))
}

// get reads the lock of a key, or of the word that stands for a key.
func (h *handler) get(ctx context.Context, given string) (string, inspect.Info, error) {
	key, err := h.unmask(given)
	if err != nil {
		return "", inspect.Info{}, err
	}
	ctx, cancel := context.WithTimeout(h.list.noteAnswers(ctx), askTime)
	defer cancel()
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
