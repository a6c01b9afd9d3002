package browser

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

var screenshots = flag.String("screenshots", "", "write screenshots into this `directory`")

const (
	// requireEnv turns the skip for a missing browser into a failure.
	requireEnv = "REDLATCH_REQUIRE_CHROMIUM"
	patience   = 60 * time.Second
	prefix     = "/admin/locks/"
)

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const hint = "Chromium is not installed: scripts/install.sh chromium does it"
	if os.Getenv(requireEnv) == "1" {
		require.FailNow(t, hint)
	}
	t.Skip(hint)
	return ""
}

// tab is a browser at a page.
type tab struct {
	ctx context.Context

	mu       sync.Mutex
	errors   []string
	requests []string
}

// open starts a browser, which ends with the test.
func open(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.WindowSize(1200, 820),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(patience))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.note))
	b.do(t, command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}))
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

func get[T any](t *testing.T, b *tab, a chromedp.Action[T]) T {
	t.Helper()
	value, err := chromedp.Run(b.ctx, a)
	require.NoError(t, err)
	return value
}

// shows waits for a text.
func (b *tab) shows(t *testing.T, text string) {
	t.Helper()
	var now string
	ok := assert.Eventually(t, func() bool {
		var err error
		now, err = chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		return err == nil && strings.Contains(now, text)
	}, patience, 20*time.Millisecond)
	if !ok {
		require.FailNow(t, "not shown", "%q in\n%s", text, now)
	}
}

func (b *tab) number(t *testing.T, expression string) float64 {
	t.Helper()
	return get(t, b, chromedp.Evaluate[float64](expression))
}

func (b *tab) colors(t *testing.T, scheme string) {
	t.Helper()
	b.do(t, command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}))
}

func (b *tab) screenshot(t *testing.T, name string) {
	t.Helper()
	if *screenshots == "" {
		return
	}
	picture := get(t, b, chromedp.CaptureScreenshot())
	require.NoError(t, os.WriteFile(filepath.Join(*screenshots, name), picture, 0o644))
}

// shop is a Redis with locks, and the page.
type shop struct {
	url   string
	lease *guard.Lease     // of order:1042, for which three other processes wait
	g     *guard.Guard     // of the page's process
	proxy *redistest.Proxy // between the page and its Redis
	web   *httptest.Server
	other atomic.Pointer[answer] // an answer in place of the page
}

// answer is the answer of a sign-in or a proxy.
type answer struct {
	code int
	body string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	server := redistest.Start(t)
	open := func(name string) *guard.Guard {
		g, err := guard.New(server.Client(t), guard.Instance(name), guard.TTL(30*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
		return g
	}
	s := &shop{g: open("web-1:4711")}
	hold := func(g *guard.Guard, key, what string) *guard.Lease {
		lease, err := g.Acquire(t.Context(), guard.Key(key), guard.Metadata(what))
		require.NoError(t, err)
		t.Cleanup(func() { _ = lease.Release(context.Background()) })
		return lease
	}
	s.lease = hold(s.g, "order:1042", "POST /orders/1042/pay")
	hold(s.g, "stock:7", "POST /orders/1043/pay")
	cron := open("cron-2:88")
	hold(cron, "report:daily", "nightly report")
	revoked := hold(cron, "export:eu", "")
	there, err := inspect.New(server.Client(t)).Revoke(t.Context(), "export:eu", revoked.Fence())
	require.NoError(t, err)
	require.True(t, there)

	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	wait := func(g *guard.Guard, key string) {
		waiting.Go(func() {
			_ = g.WithLock(ctx, guard.Key(key), func(ctx context.Context) error { <-ctx.Done(); return nil })
		})
	}
	t.Cleanup(func() { cancel(); waiting.Wait() })
	for i := range 3 {
		wait(open("worker-"+strconv.Itoa(i+1)+":9"), "order:1042")
		require.Eventually(t, func() bool {
			return server.Client(t).ZCard(t.Context(), "redlatch:{order:1042}:queue").Val() == int64(i+1)
		}, patience, 5*time.Millisecond)
	}
	wait(s.g, "stock:7")
	wait(s.g, "stock:7")
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(s.g.Holds(), func(l guard.HoldInfo) bool { return l.Waiting == 2 })
	}, patience, 5*time.Millisecond)

	s.proxy = redistest.NewProxy(t, server.Addr())
	rdb := s.proxy.Client(t, func(o *redis.Options) { o.MaxRetries = -1 })
	mux := http.NewServeMux()
	mux.Handle(prefix, guardweb.Handler(inspect.New(rdb),
		guardweb.Leases(s.g),
		guardweb.Authorize(func(*http.Request) guardweb.Role { return guardweb.Act })))
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if other := s.other.Load(); other != nil {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(other.code)
			_, _ = w.Write([]byte(other.body))
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.web.Close)
	s.url = s.web.URL + prefix
	return s
}

// well fails the test if the browser reported an error, or sent a request to another address.
func (b *tab) well(t *testing.T, s *shop) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(t, b.errors)
	assert.NotEmpty(t, b.requests)
	for _, url := range b.requests {
		assert.True(t, strings.HasPrefix(url, s.url), url)
	}
}

func TestPageInABrowser(t *testing.T) {
	s, b := newShop(t), open(t)
	b.colors(t, "light")
	b.do(t, chromedp.Navigate(s.url))
	for _, text := range []string{
		"order:1042", "web-1:4711", "POST /orders/1042/pay", "report:daily", "cron-2:88", "nightly report", "stock:7", "2 in this process", "revoked",
	} {
		b.shows(t, text)
	}
	assert.Equal(t, "order:1042stock:7", get(t, b, chromedp.Evaluate[string](`
		Array.from(document.querySelectorAll("td.key")).slice(0, 2).map(td => td.innerText).join("")`)), "keys with waiting callers come first")
	b.screenshot(t, "light.png")
	b.colors(t, "dark")
	assert.Less(t, b.number(t, "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"), 60.0, "it is dark")
	b.screenshot(t, "dark.png")

	// A later lock appears without a reload.
	late, err := s.g.Acquire(t.Context(), guard.Key("late:1"))
	require.NoError(t, err)
	b.shows(t, "late:1")
	require.NoError(t, late.Release(t.Context()))

	b.do(t, chromedp.Click(chromedp.CSS(`a[href*="order%3A1042"]`)))
	b.shows(t, "Locks / order:1042 held")
	for _, text := range []string{"web-1:4711", "worker-1:9", "worker-2:9", "worker-3:9", strconv.FormatUint(s.lease.Fence(), 10)} {
		b.shows(t, text)
	}
	b.screenshot(t, "lock-dark.png")
	b.colors(t, "light")
	b.screenshot(t, "lock-light.png")
	assert.True(t, strings.HasPrefix(get(t, b, chromedp.Location()), s.url+"lock?key="))
	b.well(t, s)
}

// Without scripts, the page is complete.
func TestBrowser_PageWithoutJavaScript(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}), chromedp.Navigate(s.url))
	page := get(t, b, chromedp.OuterHTML(chromedp.CSS("main")))
	assert.Contains(t, page, "order:1042")
	b.do(t, chromedp.Navigate(s.url+"break?key=order:1042&fence="+strconv.FormatUint(s.lease.Fence(), 10)),
		chromedp.Click(chromedp.CSS(`form button`)), chromedp.WaitVisible(chromedp.CSS(`.columns`)))
	select {
	case <-s.lease.Context().Done():
	case <-time.After(patience):
		require.FailNow(t, "the holder's context did not end")
	}
	b.well(t, s)
}

func (b *tab) evaluate(t *testing.T, script string) {
	t.Helper()
	get(t, b, chromedp.Evaluate[any](script))
}

// holds waits for an expression to be true.
func (b *tab) holds(t *testing.T, expression string) {
	t.Helper()
	require.Eventually(t, func() bool {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		return err == nil && ok
	}, patience, 20*time.Millisecond, expression)
}

const live = "document.getElementById('status').textContent === '' && !document.querySelector('.old')"

// The status line reports the outage, the old content is grey, and the end of the outage is shown.
func TestBrowser_OutageInABrowser(t *testing.T) {
	for name, c := range map[string]struct {
		page       string
		begin, end func(s *shop)
		status     string
	}{
		"list without Redis":        {"", func(s *shop) { s.proxy.Cut() }, func(s *shop) { s.proxy.Heal() }, "Redis closed the connection."},
		"lock with a silent Redis":  {"lock?key=order:1042", func(s *shop) { s.proxy.Freeze() }, func(s *shop) { s.proxy.Thaw() }, "Redis did not answer in time."},
		"without the page's server": {"", func(s *shop) { s.web.CloseClientConnections(); _ = s.web.Listener.Close() }, nil, "This page has no answer."},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newShop(t), open(t)
			b.do(t, chromedp.Navigate(s.url+c.page))
			b.shows(t, "order:1042")
			b.holds(t, live)
			c.begin(s)
			for _, text := range []string{c.status, "This is old.", "order:1042"} {
				b.shows(t, text)
			}
			b.holds(t, "!!document.querySelector('.old')")
			if c.end != nil {
				c.end(s)
				b.holds(t, live)
			}
		})
	}
}

// After a sign-in page or a proxy's error, the next answer of the page is shown.
func TestBrowser_OtherAnswersDoNotEndTheRefresh(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, chromedp.Navigate(s.url))
	b.shows(t, "order:1042")
	for _, other := range []answer{
		{200, `<main id="page">Sign in</main>`}, {503, `<main id="live">Sign in</main>`}, {200, `<p id="status">Sign in</p>`}, {502, ""},
	} {
		s.other.Store(&other)
		b.shows(t, "This is old.")
		b.shows(t, "order:1042")
		s.other.Store(nil)
		b.holds(t, live)
	}
}

// The page waits with its refresh while the user marks text, is there with the keyboard, reads how to break, or asks for it.
func TestBrowser_RefreshWaitsForTheUser(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, chromedp.Navigate(s.url+"lock?key=order:1042"))
	b.shows(t, "Process\nweb-1:4711")
	const at = `document.querySelector('time.clock').dateTime`
	for _, use := range []struct{ begin, keys, end string }{
		{`getSelection().selectAllChildren(document.querySelector('dd'))`, "", `getSelection().removeAllRanges()`},
		{`document.getElementById('pause').focus()`, "\t", `document.activeElement.blur()`}, // to the first link
		{`document.querySelector('details').open = true`, "", `document.querySelector('details').open = false`},
		{`document.getElementById('pause').click()`, "", `document.getElementById('pause').click()`},
	} {
		t.Log(use.begin)
		b.evaluate(t, use.begin)
		b.do(t, chromedp.KeyEvent(use.keys))
		b.evaluate(t, `window.later ??= setTimeout; window.rounds = 0; window.before = `+at+`; document.getElementById('live').dataset.refresh = 50;
			window.setTimeout = (...all) => { rounds++; return later(...all); }`)
		b.holds(t, `rounds >= 3 && `+at+` === before`)
		b.evaluate(t, use.end)
		b.holds(t, at+` !== before && document.getElementById('paused').textContent === ''`)
	}
	b.well(t, s)
}

// Long words wrap, and characters that turn the direction of text affect their own place only.
func TestBrowser_LongValuesInABrowser(t *testing.T) {
	s, b := newShop(t), open(t)
	long, turned := strings.Repeat("x", 500), "evil\u2069\u202ednE"
	for key, metadata := range map[string]string{
		"long:" + long: strings.Repeat("m", 250), turned: "m" + turned, strings.Repeat("words ", 40): strings.Repeat("w ", 100),
	} {
		lease, err := s.g.Acquire(t.Context(), guard.Key(key), guard.Metadata(metadata), guard.Name(strings.Repeat("n", 60)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = lease.Release(context.Background()) })
	}
	revoke := "revoke?key=order:1042&fence=" + strconv.FormatUint(s.lease.Fence(), 10)
	b.do(t, chromedp.Navigate(s.url))
	b.shows(t, "long:")
	for _, width := range []int64{1200, 800, 390} {
		b.do(t, chromedp.EmulateViewport(width, 844))
		for _, page := range []string{"", "lock?key=long:" + long, "lock?key=" + turned, revoke} {
			b.do(t, chromedp.Navigate(s.url+page))
			b.shows(t, "redlatch")
			assert.LessOrEqual(t, b.number(t, "document.documentElement.scrollWidth"), float64(width), "%d %s", width, page)
		}
	}
	// The text after the key is where it would be after any other.
	b.do(t, chromedp.EmulateViewport(1200, 844), chromedp.Navigate(s.url))
	for _, element := range []string{"#live table", "#live a[href*='stock']"} {
		b.holds(t, "!!document.querySelector(\""+element+"\")")
	}
	b.evaluate(t, `
		window.cell = document.querySelector('#live a[href*="evil"]').closest('tr').querySelector('[data-label=Holder] span');
		cell.append('AB');
		var range = document.createRange(), at = cell.lastChild;
		range.setStart(at, 0); range.setEnd(at, 1); window.a = range.getBoundingClientRect().left;
		range.setStart(at, 1); range.setEnd(at, 2); window.b = range.getBoundingClientRect().left;`)
	b.holds(t, "a < b") // red without the escapes: U+2069 ends a <bdi>
	b.well(t, s)
}

// Times are in the zone of the viewer, the tooltip has UTC, and a click copies the fence.
func TestBrowser_LocalTimesAndCopy(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}),
		chromedp.Navigate(s.url+"lock?key=order:1042"))
	const at = `document.querySelector('time.clock')`
	for range 2 { // at once, and after a refresh
		b.holds(t, at+`.textContent === new Date(`+at+`.dateTime).toLocaleString() && !`+at+`.textContent.includes('UTC') && `+at+`.title.endsWith(' UTC')`)
		b.evaluate(t, `window.before = `+at+`.dateTime`)
		b.holds(t, at+`.dateTime !== before`)
	}
	assert.InDelta(t, 330, b.number(t, `-new Date(`+at+`.dateTime).getTimezoneOffset()`), 0)
	b.evaluate(t, `navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }`)
	b.do(t, chromedp.Click(chromedp.CSS(`dd button[data-copy]`)))
	b.holds(t, `copied === '`+strconv.FormatUint(s.lease.Fence(), 10)+`'`)
	b.well(t, s)
}
