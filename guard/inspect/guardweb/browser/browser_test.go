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
	"strconv"
	"strings"
	"sync"
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

func (b *tab) location(t *testing.T) string {
	t.Helper()
	return get(t, b, chromedp.Location())
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
	lease *guard.Lease // of order:1042, for which three others wait
	g     *guard.Guard
	proxy *redistest.Proxy // between the page and its Redis
	web   *httptest.Server
}

func newShop(t *testing.T) *shop {
	t.Helper()
	server := redistest.Start(t)
	seen := guardweb.NewHistory()
	open := func(name string) *guard.Guard {
		g, err := guard.New(server.Client(t), guard.Instance(name), guard.Observe(seen), guard.TTL(30*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
		return g
	}
	s := &shop{g: open("web-1:4711")}
	hold := func(g *guard.Guard, key, name, what string) *guard.Lease {
		lease, err := g.Acquire(t.Context(), guard.Key(key), guard.Name(name), guard.Metadata(what))
		require.NoError(t, err)
		t.Cleanup(func() { _ = lease.Release(context.Background()) })
		return lease
	}
	for i := range 40 {
		require.NoError(t, s.g.WithLock(t.Context(), guard.Key("order:"+strconv.Itoa(i)), func(context.Context) error {
			return nil
		}, guard.Name("order-payment")))
	}
	s.lease = hold(s.g, "order:1042", "order-payment", "POST /orders/1042/pay")
	hold(s.g, "stock:7", "stock", "")
	hold(open("cron-2:88"), "report:daily", "report", "nightly report")

	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for i := range 3 {
		g := open("worker-" + strconv.Itoa(i+1) + ":9")
		waiting.Go(func() {
			_ = g.WithLock(ctx, guard.Key("order:1042"), func(ctx context.Context) error { <-ctx.Done(); return nil }, guard.Name("order-payment"))
		})
		require.Eventually(t, func() bool {
			return server.Client(t).ZCard(t.Context(), "guard:{order:1042}:queue").Val() == int64(i+1)
		}, patience, 5*time.Millisecond)
	}
	t.Cleanup(func() { cancel(); waiting.Wait() })

	s.proxy = redistest.NewProxy(t, server.Addr())
	rdb := s.proxy.Client(t, func(o *redis.Options) { o.MaxRetries = -1 })
	mux := http.NewServeMux()
	mux.Handle(prefix, guardweb.Handler(inspect.New(rdb),
		guardweb.Leases(s.g), guardweb.Show(seen),
		guardweb.Authorize(func(*http.Request) guardweb.Role { return guardweb.Act })))
	s.web = httptest.NewServer(mux)
	t.Cleanup(s.web.Close)
	s.url = s.web.URL + prefix
	return s
}

// well fails the test if the browser complained, or asked anybody but the page.
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
		"order:1042", "web-1:4711", "POST /orders/1042/pay", "report:daily", "cron-2:88", "nightly report", "stock:7", "3, longest",
		"Leases of this process", "last 5 minutes",
	} {
		b.shows(t, text)
	}
	// The bars shrink by themselves.
	const bar = "document.querySelector('progress').value"
	first := b.number(t, bar)
	require.Eventually(t, func() bool { return b.number(t, bar) < first }, patience, 20*time.Millisecond)
	b.screenshot(t, "light.png")
	b.colors(t, "dark")
	assert.Less(t, b.number(t, "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"), 60.0, "it is dark")
	b.screenshot(t, "dark.png")

	// What comes later is seen without a reload.
	late, err := s.g.Acquire(t.Context(), guard.Key("late:1"))
	require.NoError(t, err)
	b.shows(t, "late:1")
	require.NoError(t, late.Release(t.Context()))

	b.do(t, chromedp.Click(chromedp.CSS(`a[href*="order%3A1042"]`)))
	b.shows(t, "Held by web-1:4711")
	for _, text := range []string{"worker-1:9", "worker-2:9", "worker-3:9", strconv.FormatUint(s.lease.Fence(), 10)} {
		b.shows(t, text)
	}
	b.screenshot(t, "lock-dark.png")
	b.colors(t, "light")
	b.screenshot(t, "lock-light.png")
	assert.True(t, strings.HasPrefix(b.location(t), s.url+"lock?key="))
	b.well(t, s)
}

func TestBrowser_RevokeInABrowser(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, chromedp.Navigate(s.url+"lock?key=order:1042"), chromedp.Click(chromedp.CSS(`a[href^="revoke?"]`)))
	b.shows(t, "Revoke order:1042?")
	require.NoError(t, s.lease.Err(), "it only asks")
	b.do(t, chromedp.Click(chromedp.CSS(`form button`)))
	b.shows(t, "was asked to end. The key stays taken")
	assert.True(t, strings.HasPrefix(b.location(t), s.url+"lock?"), b.location(t))
	select {
	case <-s.lease.Context().Done():
		require.ErrorIs(t, context.Cause(s.lease.Context()), guard.ErrRevoked)
	case <-time.After(patience):
		require.FailNow(t, "the holder's context did not end")
	}
	require.ErrorIs(t, s.lease.Release(t.Context()), guard.ErrLost)
	b.shows(t, "Held by worker-1:9") // by itself
	b.well(t, s)
}

// On a phone nothing sticks out to the side.
func TestBrowser_PageOnAPhone(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	for _, page := range []string{"", "lock?key=order:1042", "revoke?key=order:1042&fence=" + strconv.FormatUint(s.lease.Fence(), 10)} {
		b.do(t, chromedp.Navigate(s.url+page))
		b.shows(t, "order:1042")
		assert.LessOrEqual(t, b.number(t, "document.documentElement.scrollWidth"), 390.0, page)
		b.screenshot(t, "extra-phone"+page[:min(4, len(page))]+".png")
	}
	b.well(t, s)
}

// Without scripts, all is there.
func TestBrowser_PageWithoutJavaScript(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}), chromedp.Navigate(s.url))
	page := get(t, b, chromedp.OuterHTML(chromedp.CSS("main")))
	assert.Contains(t, page, "order:1042")
	b.do(t, chromedp.Navigate(s.url+"break?key=order:1042&fence="+strconv.FormatUint(s.lease.Fence(), 10)),
		chromedp.Click(chromedp.CSS(`form button`)), chromedp.WaitVisible(chromedp.CSS(`p.notice`)))
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

// The status line says since when, what is shown is grey, and the end of the outage is seen.
func TestBrowser_OutageInABrowser(t *testing.T) {
	for name, c := range map[string]struct {
		page            string
		begin, end      func(s *shop)
		status, picture string
	}{
		"list without Redis":        {"", func(s *shop) { s.proxy.Cut() }, func(s *shop) { s.proxy.Heal() }, "Redis has not answered since", "outage"},
		"lock without Redis":        {"lock?key=order:1042", func(s *shop) { s.proxy.Cut() }, func(s *shop) { s.proxy.Heal() }, "Redis has not answered since", "lock-outage"},
		"lock with a silent Redis":  {"lock?key=order:1042", func(s *shop) { s.proxy.Freeze() }, func(s *shop) { s.proxy.Thaw() }, "nswer", "lock-silent"},
		"without the page's server": {"", func(s *shop) { s.web.CloseClientConnections(); _ = s.web.Listener.Close() }, nil, "No answer since", "no-server"},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newShop(t), open(t)
			b.colors(t, "light")
			b.do(t, chromedp.Navigate(s.url+c.page))
			b.shows(t, "order:1042")
			b.holds(t, "document.getElementById('status').textContent === '' && !document.querySelector('.old')")
			c.begin(s)
			b.shows(t, c.status)
			b.shows(t, "this is old")
			b.shows(t, "order:1042")
			b.holds(t, "!!document.querySelector('.old')")
			b.screenshot(t, "extra-"+c.picture+"-light.png")
			b.colors(t, "dark")
			b.screenshot(t, "extra-"+c.picture+"-dark.png")
			if c.end == nil {
				return
			}
			c.end(s)
			b.holds(t, "document.getElementById('status').textContent === '' && !document.querySelector('.old')")
		})
	}
}

// A refresh takes nothing away from a user at work on the page.
func TestBrowser_RefreshKeepsFocusAndSelection(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, chromedp.Navigate(s.url))
	b.shows(t, "stock:7")
	b.evaluate(t, `
		window.link = document.querySelector('#held a[href*="order%3A1042"]');
		window.text = document.querySelector('#held a[href*="report%3Adaily"]');
		link.focus();
		getSelection().selectAllChildren(text);
		document.getElementById('match').value = 'ord';
		window.focused = 0;
		document.addEventListener('focusin', function () { focused++ });`)
	first, err := s.g.Acquire(t.Context(), guard.Key("a first row")) // all others move
	require.NoError(t, err)
	b.shows(t, "a first row")
	kept := "link.isConnected && document.activeElement === link && link.textContent === 'order:1042' && focused === 0" +
		" && getSelection().toString() === 'report:daily' && document.getElementById('match').value === 'ord'"
	b.holds(t, kept)
	require.NoError(t, first.Release(t.Context()))
	b.holds(t, "!document.body.innerText.includes('a first row')")
	b.holds(t, kept)

	// The next hold's button is not the one that had the focus.
	b.do(t, chromedp.Navigate(s.url+"lock?key=order:1042"))
	b.shows(t, "Held by web-1:4711")
	b.evaluate(t, `document.querySelector('a[href^="revoke?"]').focus()`)
	require.NoError(t, s.lease.Release(t.Context()))
	b.shows(t, "Held by worker-1:9")
	b.holds(t, "document.activeElement === document.body")
	b.well(t, s)
}

// Long words wrap, and what turns the direction of text does so in its place only.
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
	b.do(t, chromedp.Navigate(s.url))
	b.shows(t, "long:")
	for _, width := range []int64{1200, 800, 390} {
		b.do(t, chromedp.EmulateViewport(width, 844))
		for n, page := range []string{"", "lock?key=long:" + long, "lock?key=" + turned} {
			b.do(t, chromedp.Navigate(s.url+page))
			b.shows(t, "redlatch")
			assert.LessOrEqual(t, b.number(t, "document.documentElement.scrollWidth"), float64(width), "%d %s", width, page)
			b.screenshot(t, fmt.Sprintf("extra-long-%d-%d.png", n, width))
		}
	}
	// The text after the key is where it would be after any other.
	b.do(t, chromedp.EmulateViewport(1200, 844), chromedp.Navigate(s.url))
	for _, element := range []string{"#held h1", "#held a[href*='stock']"} {
		b.holds(t, "!!document.querySelector(\""+element+"\")")
	}
	b.evaluate(t, `
		window.cell = document.querySelector('#held a[href*="evil"]').closest('tr').querySelector('[data-label=Holder] span');
		cell.append('AB');
		var range = document.createRange(), at = cell.lastChild;
		range.setStart(at, 0); range.setEnd(at, 1); window.a = range.getBoundingClientRect().left;
		range.setStart(at, 1); range.setEnd(at, 2); window.b = range.getBoundingClientRect().left;`)
	b.holds(t, "a < b") // red without the escapes: U+2069 ends a <bdi>
	b.well(t, s)
}

func TestBrowser_ListSortsInABrowser(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, chromedp.Navigate(s.url), chromedp.Click(chromedp.CSS(`th a[href*="sort=-waiting"]`)))
	b.holds(t, `document.querySelector('#held tbody tr').innerText.includes('order:1042') && !!document.querySelector('th[aria-sort=descending]')`)
	b.do(t, chromedp.Click(chromedp.CSS(`th a[href*="sort=waiting"]`)))
	b.holds(t, `!document.querySelector('#held tbody tr').innerText.includes('order:1042') && !!document.querySelector('th[aria-sort=ascending]')`)
	b.well(t, s)
}
