package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
)

const patience = 60 * time.Second

// tab is a browser at a page.
type tab struct {
	ctx context.Context

	mu       sync.Mutex
	errors   []string
	requests []string
}

// open starts a browser in another time zone, which ends with the test.
func open(t *testing.T) *tab {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
		}
	}
	require.NotEmpty(t, path, "neither Chromium nor Chrome is in the PATH")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(patience))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.note))
	b.do(t, command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}),
		command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}))
	b.ctx, cancel = context.WithTimeout(ctx, 2*patience)
	t.Cleanup(cancel)
	return b
}

// command is one of the browser's protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

// note keeps the errors of the browser, and the addresses that it asks.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.errors = append(b.errors, fmt.Sprint("console: ", e.Type, e.Args))
	case *log.EventEntryAdded:
		b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

func (b *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(b.ctx, steps...))
}

func (b *tab) evaluate(t *testing.T, script string) {
	t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](script))
	require.NoError(t, err)
}

// holds waits for an expression to be true.
func (b *tab) holds(t *testing.T, expression string) {
	t.Helper()
	require.Eventually(t, func() bool {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		return err == nil && ok
	}, patience, 20*time.Millisecond, expression)
}

// site serves the page, with a refresh every 50 ms, or another answer in its place.
type site struct {
	url   string
	other atomic.Pointer[answer]
}

// answer is the answer of a sign-in or a proxy, or none if its code is 0.
type answer struct {
	code int
	body string
}

func newSite(t *testing.T, page http.Handler) *site {
	t.Helper()
	s := &site{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if other := s.other.Load(); other != nil {
			if other.code == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(other.code)
			_, _ = w.Write([]byte(other.body))
			return
		}
		made := httptest.NewRecorder()
		page.ServeHTTP(made, r)
		for name, values := range made.Header() {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(made.Code)
		_, _ = w.Write([]byte(strings.Replace(made.Body.String(), `data-refresh="2000"`, `data-refresh="50"`, 1)))
	}))
	t.Cleanup(web.Close)
	s.url = web.URL + "/admin/locks/"
	return s
}

// What only a browser shows of page.js: the refresh, which waits for the user and reports an outage, local times, copying,
// and that the policy of the page forbids none of it. The rest is proved by the tests of guardweb.
func TestPage_InABrowser(t *testing.T) {
	rdb := guardtest.NewRedis(t)
	g, err := guard.New(rdb)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	lease, err := g.Acquire(t.Context(), guard.Key("order:42"))
	require.NoError(t, err)
	defer lease.Release(context.Background())
	s, b := newSite(t, guardweb.Handler(inspect.New(rdb), guardweb.Authorize(func(*http.Request) guardweb.Role { return guardweb.Act }))), open(t)
	fence := strconv.FormatUint(lease.Fence(), 10)
	b.do(t, chromedp.Navigate(s.url+"revoke?key=order:42&fence="+fence), chromedp.Navigate(s.url+"lock?key=order:42"))

	const at = `document.querySelector('time.clock')`
	const isLocal = at + `.textContent === new Date(` + at + `.dateTime).toLocaleString() && ` + at + `.title.endsWith(' UTC') && new Date().getTimezoneOffset() === -330`
	b.holds(t, isLocal)
	b.evaluate(t, `window.before = `+at+`.dateTime`)
	b.holds(t, at+`.dateTime !== before && `+isLocal)
	b.evaluate(t, `navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }; document.querySelector('dd button[data-copy]').click()`)
	b.holds(t, `copied === '`+fence+`'`)

	for _, use := range []struct{ begin, keys, end string }{
		{`getSelection().selectAllChildren(document.querySelector('dd'))`, "", `getSelection().removeAllRanges()`},
		{`document.getElementById('pause').focus()`, "\t", `document.activeElement.blur()`}, // to the first link
		{`document.querySelector('details').open = true`, "", `document.querySelector('details').open = false`},
		{`document.getElementById('pause').click()`, "", `document.getElementById('pause').click()`},
	} {
		t.Log(use.begin)
		b.evaluate(t, use.begin)
		b.do(t, chromedp.KeyEvent(use.keys))
		b.evaluate(t, `window.later ??= setTimeout; window.rounds = 0; window.before = `+at+`.dateTime;
			window.setTimeout = (...all) => { rounds++; return later(...all); }`)
		b.holds(t, `rounds >= 3 && `+at+`.dateTime === before`)
		b.evaluate(t, use.end)
		b.holds(t, at+`.dateTime !== before && document.getElementById('paused').textContent === ''`)
	}

	b.mu.Lock()
	assert.Empty(t, b.errors)
	assert.NotEmpty(t, b.requests)
	for _, url := range b.requests {
		assert.True(t, strings.HasPrefix(url, s.url), url)
	}
	b.mu.Unlock()

	for _, c := range []struct {
		answer
		status string
	}{
		{answer{503, `<p id="status">Redis is down.</p>`}, "Redis is down. This is old."},
		{answer{503, `<p id="status">Redis is down. This is old.</p><main id="live" class="old">order:42</main>`}, "Redis is down. This is old."},
		{answer{200, `<main id="page">Sign in</main>`}, "This page has no answer. This is old."},
		{answer{503, `<main id="live">Sign in</main>`}, "This page has no answer. This is old."},
		{answer{}, "This page has no answer. This is old."},
	} {
		s.other.Store(&c.answer)
		b.holds(t, `document.getElementById('status').textContent === '`+c.status+`' && !!document.querySelector('.old') && document.body.innerText.includes('order:42')`)
		s.other.Store(nil)
		b.holds(t, `document.getElementById('status').textContent === '' && !document.querySelector('.old')`)
	}
}
