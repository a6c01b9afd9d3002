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

// note keeps what the browser complains of, and whom it asks.
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

	mux := http.NewServeMux()
	mux.Handle(prefix, guardweb.Handler(inspect.New(server.Client(t)),
		guardweb.Leases(s.g), guardweb.Show(seen),
		guardweb.Authorize(func(*http.Request) guardweb.Role { return guardweb.Act })))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	s.url = web.URL + prefix
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

func TestRevokeInABrowser(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, chromedp.Navigate(s.url+"lock?key=order:1042"), chromedp.Click(chromedp.CSS(`a[href^="revoke?"]`)))
	b.shows(t, "Revoke order:1042?")
	require.NoError(t, s.lease.Err(), "it only asks")
	b.do(t, chromedp.Click(chromedp.CSS(`form button`)))
	b.shows(t, "The holder was told to end")
	assert.True(t, strings.HasPrefix(b.location(t), s.url+"lock?"), b.location(t))
	select {
	case <-s.lease.Context().Done():
		require.ErrorIs(t, context.Cause(s.lease.Context()), guard.ErrRevoked)
	case <-time.After(patience):
		require.FailNow(t, "the holder was not told")
	}
	require.ErrorIs(t, s.lease.Release(t.Context()), guard.ErrLost)
	b.shows(t, "Held by worker-1:9") // by itself
	b.well(t, s)
}

// On a phone nothing sticks out to the side.
func TestPageOnAPhone(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	for _, page := range []string{"", "lock?key=order:1042", "revoke?key=order:1042&fence=" + strconv.FormatUint(s.lease.Fence(), 10)} {
		b.do(t, chromedp.Navigate(s.url+page))
		b.shows(t, "order:1042")
		assert.LessOrEqual(t, b.number(t, "document.documentElement.scrollWidth"), 390.0, page)
	}
	b.well(t, s)
}

// Without scripts, all is there.
func TestPageWithoutJavaScript(t *testing.T) {
	s, b := newShop(t), open(t)
	b.do(t, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}), chromedp.Navigate(s.url))
	page := get(t, b, chromedp.OuterHTML(chromedp.CSS("main")))
	assert.Contains(t, page, "order:1042")
	b.do(t, chromedp.Navigate(s.url+"break?key=order:1042&fence="+strconv.FormatUint(s.lease.Fence(), 10)),
		chromedp.Click(chromedp.CSS(`form button`)), chromedp.WaitVisible(chromedp.CSS(`p.told`)))
	select {
	case <-s.lease.Context().Done():
	case <-time.After(patience):
		require.FailNow(t, "the holder was not told")
	}
	b.well(t, s)
}
