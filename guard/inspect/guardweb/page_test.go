package guardweb_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	"github.com/redlatch/redlatch/internal/guardhook"
)

func TestPage_ShowsLocks(t *testing.T) {
	r := newEnv(t)
	order := r.hold("order:<42>", guard.Metadata("request & more"))
	for i := range 3 {
		waiter := redis.Z{Score: float64(time.Now().UnixMicro()), Member: fmt.Sprint("0000000", i, "-1")}
		require.NoError(t, r.client.ZAdd(t.Context(), "redlatch:{order:<42>}:queue", waiter).Err())
	}
	first, second := r.hold("rates", guard.Shared(), guard.Metadata("reader 1")), r.hold("rates", guard.Limit(3), guard.Metadata("reader 2"))
	require.NoError(t, r.hold("report", guard.MinHold(time.Hour)).Release(t.Context()))
	old := time.Now().Add(-11 * time.Minute).UnixMicro()
	require.NoError(t, r.client.HSet(t.Context(), "redlatch:{long}", "0123456789abcdef-1", fmt.Sprintf("1 %d 0 - ", old)).Err())
	view, act := r.page(), r.page(acting)
	require.Equal(t, 303, act.post("/revoke", "revoked", r.hold("revoked").Fence(), "").code)

	list := view.says("/", "order:&lt;42&gt;", "request &amp; more",
		`<td data-label="Waiting"><span><b class="pill waits">3</b> <span class="quiet">longest `, `href="lock?key=order%3A%3C42%3E"`,
		`</bdi> and 1 more <span class="quiet">shared</span>`, `reader 1</bdi>`, "kept by MinHold", // the list shows the first of several holders
		`<tr class="revoked"><td data-label="Key" class="key"><a href="lock?key=revoked`, `<tr class="long"><td data-label="Key" class="key"><a href="lock?key=long`)
	lock := view.says("/lock?key=order:%3C42%3E", "request &amp; more", text(order.Fence()), "<tr><td>1<td>", "<tr><td>2<td>", "<tr><td>3<td>",
		`<bdi class="key">order:&lt;42&gt;</bdi> <b class="pill held">held</b>`)
	for _, body := range []string{list, lock} {
		assert.NotContains(t, body, guardhook.Owner(order), "owners are secrets")
		assert.NotContains(t, body, "revoke?", "view only")
		assert.NotContains(t, body, "reader 2")
	}
	act.says("/lock?key=rates", "reader 1", "reader 2", `<span class="quiet">shared</span>`, `<span class="quiet">at most 3</span>`,
		"revoke?fence="+text(first.Fence()), "break?fence="+text(second.Fence()))
	view.says("/lock?key=report", "The key is kept until its MinHold is over.", `<b class="pill kept">kept</b>`)
	view.says("/lock?key=free", "This key is free", `<a href="./?match=*free*">Search</a>`, "No other process waits")
	assert.NotContains(t, view.says("/?match=rep*", "report"), "order:&lt;42&gt;")
	view.says("/?match=none*", `No lock is held whose key matches <bdi class="key">none*</bdi>.`)
	view.says("/?match=*&sort=key", `<th aria-sort="ascending"><a href="./?match=%2A&amp;sort=key">Key</a>`,
		`<th><a href="./?match=%2A&amp;sort=waiting">Waiting</a>`, `<input type="hidden" name="sort" value="key">`)
}

// Redis does not know of callers that wait in the holder's process. The page of that process does.
func TestPage_ShowsTheWaitingCallersOfItsProcess(t *testing.T) {
	r := newEnv(t)
	r.hold("k")
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() { _ = r.g.WithLock(ctx, guard.Key("k"), func(context.Context) error { return nil }) })
	}
	defer waiting.Wait()
	defer leave()
	require.Eventually(t, func() bool { return r.g.Holds()[0].Waiting == 3 }, patience, time.Millisecond)
	const not = "Callers that wait in a holder's own process are not counted."
	r.page().says("/", not, `<td data-label="Waiting"><span><span class="quiet">0</span></span>`)
	r.page().says("/lock?key=k", "No other process waits.")
	own := r.page(guardweb.Leases(r.guard()), guardweb.Leases(r.g))
	assert.NotContains(t, own.says("/", `<b class="pill waits">3 in this process</b></span>`), not)
	own.says("/lock?key=k", `<b class="pill waits">3</b> callers wait in this process.`)
}

// The links of a page lead back to it, wherever it is mounted, and load nothing from elsewhere.
func TestPage_WorksUnderAnyPrefix(t *testing.T) {
	r := newEnv(t)
	lease := r.hold("k")
	link := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for name, test := range map[string]struct{ root, strip string }{
		"root": {"/", ""}, "prefix": {"/admin/locks/", ""}, "stripped": {"/admin/locks/", "/admin/locks"},
		"all of it stripped": {"/admin/locks/", "/admin/locks/"}, "named as a page": {"/lock/", ""},
	} {
		mux, p := http.NewServeMux(), r.page(acting)
		mux.Handle(test.root, http.StripPrefix(test.strip, p))
		p.Handler = mux
		base, seen := "http://host"+test.root, map[string]bool{}
		for next := []string{base}; len(next) > 0; next = next[1:] {
			if seen[next[0]] {
				continue
			}
			seen[next[0]] = true
			a := p.get(next[0])
			require.Equal(t, 200, a.code, next[0])
			csp := a.header.Get("Content-Security-Policy")
			assert.Contains(t, csp, "default-src 'none'")
			assert.Contains(t, csp, "frame-ancestors 'none'")
			assert.NotContains(t, csp, "unsafe")
			assert.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
			assert.Equal(t, "same-origin", a.header.Get("Referrer-Policy"))
			assert.Equal(t, 200, p.send(http.MethodHead, next[0]).code)
			if a.header.Get("Content-Type") != "image/svg+xml" {
				assert.NotRegexp(t, `https?://`, a.body)
			}
			assert.NotRegexp(t, `<style| style=|<script>| on[a-z]+="`, a.body, "the policy forbids it")
			from, err := url.Parse(next[0])
			require.NoError(t, err)
			for _, found := range link.FindAllStringSubmatch(a.body, -1) {
				to, err := from.Parse(html.UnescapeString(found[1]))
				require.NoError(t, err)
				assert.True(t, strings.HasPrefix(to.String(), base), "%s: %s leads to %s", name, next[0], to)
				next = append(next, to.String())
			}
		}
		for _, page := range []string{"", "lock?key=k", "revoke?fence=" + text(lease.Fence()) + "&key=k", "style.css", "page.js", "icon.svg"} {
			assert.True(t, seen[base+page], "%s: %s in %v", name, page, seen)
		}
	}
	root := r.page().get("/").header
	assert.Equal(t, "no-store", root.Get("Cache-Control"))
	assert.Equal(t, "text/html; charset=utf-8", root.Get("Content-Type"))

	for _, file := range []string{"style.css", "page.js", "icon.svg"} {
		a := r.page().get("/" + file)
		assert.NotEmpty(t, a.body, file)
		assert.Equal(t, "max-age=300", a.header.Get("Cache-Control"), file)
	}

	// Where the prefix is stripped by hand, the page's address may lack the slash.
	a := page{t, http.StripPrefix("/locks", r.page())}.get("/locks")
	assert.Equal(t, http.StatusPermanentRedirect, a.code)
	assert.Equal(t, "locks/", a.location)
	assert.Equal(t, "locks/", page{t, http.StripPrefix("/locks", r.page())}.get("/locks?match=k").location)
	assert.Equal(t, 404, r.page().get("/locks").code)

	// A path that was rewritten counts, and a request that has none is for the root.
	for path, uri := range map[string]string{"/lock": "/locks/style.css?key=k", "": ""} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?key=k", nil)
		request.URL.Path, request.RequestURI = path, uri
		a := r.page().ask(request)
		assert.Equal(t, 200, a.code)
		assert.Contains(t, a.body, "<title>"+map[bool]string{true: "k", false: "Locks"}[path != ""])
	}
}

func TestPage_BadInput(t *testing.T) {
	r := newEnv(t)
	require.NoError(t, r.client.HSet(t.Context(), "redlatch:{by hand}", "a", "b").Err())
	p := r.page(acting)
	for target, c := range map[string]struct {
		code int
		says string
	}{
		"/lock":                                 {400, "key must be UTF-8 of 1 to 512 bytes."},
		"/lock?key=" + strings.Repeat("k", 513): {400, "<title>Bad Request · redlatch"},
		"/lock?key=%ff":                         {400, "key must be UTF-8"},
		"/lock?key=by+hand":                     {422, "is not a lock: "},
		"/more":                                 {404, "<bdi>Redis at "},
		"/?sort=size":                           {400, "sort is none of waiting, held, key"},
		"/?match=" + strings.Repeat("a", 513):   {400, "match has 513 bytes, the longest is 512"},
		"/?match=%ff":                           {400, "match is not UTF-8"},
		"/?match=[" + strings.Repeat("a", 511):  {200, "No lock is held"},
		"/?match=by*":                           {200, "is not a lock"},
		"/revoke?fence=1":                       {400, "key must be"},
	} {
		a := p.get(target)
		assert.Equal(t, c.code, a.code, target)
		assert.Contains(t, a.body, c.says, target)
	}
	assert.Contains(t, p.post("/revoke", "k", "1", strings.Repeat("m", 64<<10)).body, "at most 64 KiB")
	assert.Equal(t, 400, p.post("/revoke", "k", "ten", "").code)
	assert.Equal(t, 422, p.post("/break", "by hand", "1", "").code)
	assert.Equal(t, "b", r.client.HGet(t.Context(), "redlatch:{by hand}", "a").Val())
	for says, h := range map[string]http.Handler{
		"Authorize is missing: the page needs Authorize or ReadOnly": guardweb.Handler(r.inspector, guardweb.MaskKeys()),
		"Authorize was given a nil function":                         guardweb.Handler(r.inspector, nil, guardweb.Authorize(nil), guardweb.Leases(nil)), // the first of them
		"Leases was given a nil Guard":                               guardweb.Handler(r.inspector, guardweb.Leases(nil)),
		"Inspector was not made by New":                              guardweb.Handler(nil, guardweb.ReadOnly()),
	} {
		a := page{t, h}.get("/")
		assert.Equal(t, 500, a.code, says)
		assert.Contains(t, a.body, says)
	}
}

// What others wrote into keys and metadata stays within its place.
func TestPage_TextsOfOthersAreIsolated(t *testing.T) {
	const turned, seen = "a\u2069\u202e\tb", `a\u2069\u202e\u0009b`
	r := newEnv(t)
	r.hold(turned, guard.Metadata("m"+turned))
	p := r.page(acting)
	list := p.says("/", "<bdi>"+seen+"</bdi>", "m"+seen+"</bdi>")
	lock := p.says("/lock?key="+url.QueryEscape(turned), `<bdi class="key">`+seen+"</bdi>", "<bdi>m"+seen+"</bdi>", "<title>"+seen+" · redlatch</title>")
	assert.NotContains(t, regexp.MustCompile(`data-copy="[^"]*"`).ReplaceAllString(list+lock, ""), "\u202e", "it is in links, escaped, and in the copied text")
}

var masked = regexp.MustCompile(`key-[0-9a-f]{16}`)

func TestPage_MaskedKeys(t *testing.T) {
	r := newEnv(t)
	const key, unknown = "alice@example.com", "key-0000000000000000"
	lease := r.hold(key, guard.Metadata("alice's request"))
	r.record(key, "done", "secret")
	require.NoError(t, r.client.HSet(t.Context(), "redlatch:{alice by hand}", "a", "b").Err())
	p := r.page(acting, guardweb.MaskKeys())
	word := masked.FindString(p.says("/", "is not a lock"))
	require.NotEmpty(t, word)
	assert.NotContains(t, r.page(guardweb.MaskKeys()).says("/"), word, "a secret of each Handler's own")
	for _, target := range []string{
		"/", "/lock?key=" + word, "/lock?key=" + key, "/revoke?key=" + word + "&fence=" + text(lease.Fence()), "/forget?key=" + key + "&fence=7",
	} {
		body := p.says(target)
		assert.NotContains(t, body, "alice", target)
		assert.NotContains(t, body, "request&gt;", "metadata")
	}
	p.codes(map[string]int{"/lock?key=" + unknown: 404, "/?match=" + unknown: 404})
	assert.Equal(t, 404, p.post("/break", unknown, lease.Fence(), "").code)

	// With wildcards, a masked key would be read letter by letter. A known key can be searched for, held or not.
	for _, match := range []string{"a*", "alice?example.com", "[a]lice@example.com", `\alice@example.com`} {
		a := p.get("/?match=" + url.QueryEscape(match))
		assert.Equal(t, 400, a.code, match)
		assert.Contains(t, a.body, "match must be a whole key")
		assert.NotContains(t, a.body, "alice")
	}
	for _, match := range []string{key, word} {
		assert.Equal(t, "lock?key="+word, p.get("/?match="+match).location)
	}
	assert.Regexp(t, `^lock\?key=key-[0-9a-f]{16}$`, p.get("/?match=bob").location)

	p.says("/lock?key="+word, text(lease.Fence()))
	assert.Equal(t, 303, p.post("/forget", word, 7, "done").code)
	assert.Equal(t, "lock?key="+word, p.post("/break", word, lease.Fence(), "").location)
	assert.NotContains(t, p.says("/lock?key="+word, "This key is free."), "Search", "a search needs a whole key")
}
