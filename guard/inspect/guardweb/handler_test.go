package guardweb_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	"github.com/redlatch/redlatch/internal/redistest"
)

const patience = 20 * time.Second

// env is a Guard and a page on one Redis.
type env struct {
	client    *redis.Client
	g         *guard.Guard
	inspector *inspect.Inspector
}

func newEnv(t *testing.T, opts ...guard.Option) *env {
	t.Helper()
	s := redistest.Start(t)
	r := &env{client: s.Client(t)}
	r.g = r.guard(t, opts...)
	r.inspector = inspect.New(r.client)
	return r
}

func (r *env) guard(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(r.client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

func hold(t *testing.T, g *guard.Guard, key string, opts ...guard.LockOption) *guard.Lease {
	t.Helper()
	lease, err := g.Acquire(t.Context(), guard.Key(key), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lease.Release(context.Background()) }) // it may be lost
	return lease
}

// queue has others wait for a key, and returns when they do.
func (r *env) queue(t *testing.T, key string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	for range n {
		g := r.guard(t)
		go func() {
			_ = g.WithLock(ctx, guard.Key(key), func(context.Context) error { return nil })
			done <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range n {
			<-done
		}
	})
	require.Eventually(t, func() bool {
		return r.client.ZCard(t.Context(), "guard:{"+key+"}:queue").Val() == int64(n)
	}, patience, time.Millisecond)
}

func everybody(role guardweb.Role) guardweb.Option {
	return guardweb.Authorize(func(*http.Request) guardweb.Role { return role })
}

type answer struct {
	code     int
	body     string
	location string
	header   http.Header
}

func ask(t *testing.T, h http.Handler, r *http.Request) answer {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	require.NoError(t, w.Result().Body.Close())
	return answer{w.Code, string(body), w.Header().Get("Location"), w.Header()}
}

func get(t *testing.T, h http.Handler, target string) answer {
	t.Helper()
	return ask(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
}

func post(t *testing.T, h http.Handler, target, key string, fence any, change ...func(*http.Request)) answer {
	t.Helper()
	form := url.Values{"key": {key}, "fence": {fmt.Sprint(fence)}}.Encode()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range change {
		c(r)
	}
	return ask(t, h, r)
}

func TestHandler_ListShowsWhatIsHeld(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	first := hold(t, r.g, "order:<42>", guard.Metadata("request & more"))
	hold(t, r.g, "user:1")
	r.queue(t, "order:<42>", 2)
	h := guardweb.Handler(r.inspector)

	a := get(t, h, "/")
	require.Equal(t, 200, a.code)
	for _, text := range []string{
		"order:&lt;42&gt;", "request &amp; more", "user:1", strconv.FormatUint(first.Fence(), 10),
		`<td data-label="Processes waiting"><span>2, longest `, `<progress value=`, `href="lock?key=order%3A%3C42%3E"`,
	} {
		assert.Contains(t, a.body, text)
	}
	assert.NotContains(t, a.body, first.Owner(), "owners are secrets")
	assert.NotContains(t, a.body, "revoke?", "view only")

	a = get(t, h, "/?match=user:*")
	assert.Contains(t, a.body, "user:1")
	assert.NotContains(t, a.body, "order:&lt;42&gt;")
	a = get(t, h, "/?match=none")
	assert.Contains(t, a.body, "Nothing is held under such a key")
}

func TestHandler_LockShowsHolderAndQueue(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	lease := hold(t, r.g, "k", guard.Metadata("what it is"))
	r.queue(t, "k", 3)
	a := get(t, guardweb.Handler(r.inspector), "/lock?key=k")
	require.Equal(t, 200, a.code)
	assert.Contains(t, a.body, "what it is")
	assert.Contains(t, a.body, strconv.FormatUint(lease.Fence(), 10))
	for _, place := range []string{"<tr><td>1<td>", "<tr><td>2<td>", "<tr><td>3<td>"} {
		assert.Contains(t, a.body, place)
	}
	assert.NotContains(t, a.body, "revoke?", "view only")
	a = get(t, guardweb.Handler(r.inspector), "/lock?key=free")
	assert.Contains(t, a.body, "This key is free")
	assert.Contains(t, a.body, "No other process waits")
}

// The links of a page lead back to it, wherever it is mounted.
func TestHandler_PageWorksUnderAnyPrefix(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	lease := hold(t, r.g, "k")
	page := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	link := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for name, test := range map[string]struct {
		root  string
		mount func(mux *http.ServeMux)
	}{
		"root":     {"/", func(mux *http.ServeMux) { mux.Handle("/", page) }},
		"prefix":   {"/admin/locks/", func(mux *http.ServeMux) { mux.Handle("/admin/locks/", page) }},
		"stripped": {"/admin/locks/", func(mux *http.ServeMux) { mux.Handle("/admin/locks/", http.StripPrefix("/admin/locks", page)) }},
		"all of it stripped": {"/admin/locks/", func(mux *http.ServeMux) {
			mux.Handle("/admin/locks/", http.StripPrefix("/admin/locks/", page))
		}},
		"named as a page": {"/lock/", func(mux *http.ServeMux) { mux.Handle("/lock/", page) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			test.mount(mux)
			base, err := url.Parse("http://host" + test.root)
			require.NoError(t, err)
			fence := strconv.FormatUint(lease.Fence(), 10)
			seen := map[string]bool{}
			for next := []string{base.String()}; len(next) > 0; next = next[1:] {
				if seen[next[0]] {
					continue
				}
				seen[next[0]] = true
				a := get(t, mux, next[0])
				require.Equal(t, 200, a.code, next[0])
				from, err := url.Parse(next[0])
				require.NoError(t, err)
				for _, found := range link.FindAllStringSubmatch(a.body, -1) {
					to, err := from.Parse(html.UnescapeString(found[1]))
					require.NoError(t, err)
					assert.True(t, strings.HasPrefix(to.String(), base.String()), "%s leads to %s", next[0], to)
					next = append(next, to.String())
				}
			}
			for _, page := range []string{"", "lock?key=k", "revoke?fence=" + fence + "&key=k", "style.css", "page.js", "icon.svg"} {
				assert.True(t, seen[base.String()+page], "%s in %v", page, seen)
			}
		})
	}
}

// Where the prefix is stripped by hand, the page's address may lack the slash.
func TestHandler_PrefixWithoutASlash(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	a := get(t, http.StripPrefix("/locks", guardweb.Handler(r.inspector)), "/locks")
	assert.Equal(t, http.StatusPermanentRedirect, a.code)
	assert.Equal(t, "locks/", a.location)
	assert.Equal(t, 404, get(t, guardweb.Handler(r.inspector), "/locks").code)
}

func TestHandler_RevokeTellsTheHolder(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	lease := hold(t, r.g, "a key?", guard.TTL(2*time.Second))
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	confirm := get(t, h, "/revoke?key=a+key%3F&fence="+strconv.FormatUint(lease.Fence(), 10))
	require.Equal(t, 200, confirm.code)
	assert.Contains(t, confirm.body, `<form method="post" action="revoke"`)
	assert.Contains(t, confirm.body, `name="key" value="a key?"`)
	require.NoError(t, lease.Err(), "asking does nothing")

	a := post(t, h, "/revoke", "a key?", lease.Fence())
	require.Equal(t, http.StatusSeeOther, a.code, a.body)
	assert.Regexp(t, `^lock\?done=revoke\.\d+\.\d+\.[0-9a-f]{16}&key=a\+key%3F$`, a.location)
	select {
	case <-lease.Context().Done():
		require.ErrorIs(t, context.Cause(lease.Context()), guard.ErrRevoked)
	case <-time.After(patience):
		require.FailNow(t, "the holder was not told")
	}
	assert.Contains(t, get(t, h, "/"+a.location).body, fmt.Sprintf("The holder of %d was told to end", lease.Fence()))
	require.ErrorIs(t, lease.Release(t.Context()), guard.ErrLost)
	assert.Equal(t, 404, post(t, h, "/revoke", "a key?", lease.Fence()).code)
}

func TestHandler_BreakFreesTheKey(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	lease := hold(t, r.g, "k")
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	assert.Contains(t, get(t, h, "/break?key=k&fence="+strconv.FormatUint(lease.Fence(), 10)).body, "two work at the same time")
	assert.Equal(t, 404, post(t, h, "/break", "k", lease.Fence()+1).code, "another hold")
	require.NoError(t, lease.Err())
	assert.Equal(t, 303, post(t, h, "/break", "k", lease.Fence()).code)
	info, err := r.inspector.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Empty(t, info.Holders)
}

func TestHandler_Roles(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	lease := hold(t, r.g, "k")
	fence := strconv.FormatUint(lease.Fence(), 10)
	for name, test := range map[string]struct {
		opts           []guardweb.Option
		look, mayReach int
	}{
		"none":              {[]guardweb.Option{everybody(guardweb.None)}, 403, 403},
		"no such role":      {[]guardweb.Option{everybody(7)}, 403, 403},
		"view":              {[]guardweb.Option{everybody(guardweb.View)}, 200, 403},
		"without Authorize": {nil, 200, 403},
		"act":               {[]guardweb.Option{everybody(guardweb.Act)}, 200, 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := guardweb.Handler(r.inspector, test.opts...)
			for _, page := range []string{"/", "/lock?key=k", "/style.css"} {
				assert.Equal(t, test.look, get(t, h, page).code, page)
			}
			for _, page := range []string{"/revoke", "/break"} {
				assert.Equal(t, test.mayReach, get(t, h, page+"?key=k&fence=7").code)
				assert.Equal(t, test.mayReach, post(t, h, page, "k", 7).code)
			}
			if test.mayReach == 403 {
				assert.Equal(t, 403, post(t, h, "/revoke", "k", fence).code)
			}
		})
	}
	require.NoError(t, lease.Err())
}

func TestHandler_AnotherSiteCannotAct(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	lease := hold(t, r.g, "k")
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	for header, value := range map[string]string{
		"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example",
	} {
		for _, page := range []string{"/revoke", "/break"} {
			a := post(t, h, page, "k", lease.Fence(), func(r *http.Request) { r.Header.Set(header, value) })
			assert.Equal(t, 403, a.code, header)
			assert.Contains(t, a.header.Get("Content-Security-Policy"), "default-src 'none'")
			assert.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
			assert.Equal(t, "no-store", a.header.Get("Cache-Control"))
		}
	}
	require.NoError(t, lease.Err())
	a := post(t, h, "/revoke", "k", lease.Fence(), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") })
	assert.Equal(t, 303, a.code)
}

// A GET never acts, and a POST looks at its body alone.
func TestHandler_OnlyAFormActs(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	lease := hold(t, r.g, "k")
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	query := "?key=k&fence=" + strconv.FormatUint(lease.Fence(), 10)
	assert.Equal(t, 200, get(t, h, "/break"+query).code)
	a := ask(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/break"+query, nil))
	assert.Equal(t, 400, a.code)
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		for _, page := range []string{"/", "/lock", "/break"} {
			a := ask(t, h, httptest.NewRequestWithContext(t.Context(), method, page+query, nil))
			assert.Equal(t, 405, a.code)
			assert.NotEmpty(t, a.header.Get("Allow"))
		}
	}
	require.NoError(t, lease.Err())
}

func TestHandler_BadInput(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	require.NoError(t, r.client.HSet(t.Context(), "guard:{by hand}", "a", "b").Err())
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	assert.Equal(t, 400, get(t, h, "/lock").code)
	assert.Equal(t, 400, get(t, h, "/lock?key="+strings.Repeat("k", 513)).code)
	assert.Equal(t, 400, get(t, h, "/lock?key=%ff").code)
	assert.Equal(t, 400, post(t, h, "/revoke", "k", "ten").code)
	assert.Equal(t, 400, post(t, h, "/revoke", "k", "-1").code)
	assert.Equal(t, 400, post(t, h, "/revoke", "", "1").code)
	assert.Equal(t, 400, post(t, h, "/revoke", "k", "1", func(r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader("key=k&fence=1&more=" + strings.Repeat("m", 64<<10)))
	}).code, "more than 64 KiB")
	assert.Equal(t, 404, post(t, h, "/revoke", "k", "1").code)
	assert.Equal(t, 404, get(t, h, "/more").code)
	assert.Equal(t, 422, get(t, h, "/lock?key=by+hand").code)
	assert.Equal(t, 422, post(t, h, "/break", "by hand", "1").code)
	assert.Contains(t, get(t, h, "/").body, "is not a lock")
	assert.Equal(t, "b", r.client.HGet(t.Context(), "guard:{by hand}", "a").Val())
}

func TestHandler_WithoutRedis(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	h := guardweb.Handler(inspect.New(client), everybody(guardweb.Act))
	assert.Equal(t, 503, get(t, h, "/").code)
	assert.Equal(t, 503, get(t, h, "/lock?key=k").code)
	assert.Equal(t, 503, post(t, h, "/break", "k", 1).code)
}

func TestHandler_WrongOptionsAreToldByEachAnswer(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	for says, h := range map[string]http.Handler{
		"Authorize": guardweb.Handler(r.inspector, nil, guardweb.Authorize(nil)),
		"Show":      guardweb.Handler(r.inspector, guardweb.Show(nil)),
		"Leases":    guardweb.Handler(r.inspector, guardweb.Leases(nil)),
		"Inspector": guardweb.Handler(nil),
	} {
		a := get(t, h, "/")
		assert.Equal(t, 500, a.code, says)
		assert.Contains(t, a.body, says)
	}
}

func TestHandler_PageLoadsNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	lease := hold(t, r.g, "k")
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	for _, page := range []string{
		"/", "/lock?key=k", "/revoke?key=k&fence=" + strconv.FormatUint(lease.Fence(), 10), "/none", "/style.css", "/page.js",
	} {
		a := get(t, h, page)
		csp := a.header.Get("Content-Security-Policy")
		assert.Contains(t, csp, "default-src 'none'")
		assert.Contains(t, csp, "frame-ancestors 'none'")
		assert.NotContains(t, csp, "unsafe")
		assert.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		assert.NotRegexp(t, `https?://`, a.body)
		assert.NotRegexp(t, `<style| style=|<script>| on[a-z]+="`, a.body, "the policy forbids it")
	}
	assert.Equal(t, "no-store", get(t, h, "/").header.Get("Cache-Control"))
}

func TestHandler_MaskedKeys(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	lease := hold(t, r.g, "alice@example.com", guard.Metadata("alice's request"))
	seen := guardweb.NewHistory()
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act), guardweb.MaskKeys(), guardweb.Show(seen))
	a := get(t, h, "/")
	word := regexp.MustCompile(`key-[0-9a-f]{16}`).FindString(a.body)
	require.NotEmpty(t, word)
	fence := strconv.FormatUint(lease.Fence(), 10)
	for _, page := range []string{
		"/", "/lock?key=" + word, "/lock?key=alice@example.com", "/revoke?key=" + word + "&fence=" + fence, "/lock?key=key-0000000000000000",
	} {
		assert.NotContains(t, get(t, h, page).body, "alice", page)
	}
	assert.Contains(t, get(t, h, "/lock?key="+word).body, fence)
	assert.Equal(t, 404, get(t, h, "/lock?key=key-0000000000000000").code)
	other := guardweb.Handler(r.inspector, guardweb.MaskKeys())
	assert.NotContains(t, get(t, other, "/").body, word, "a secret of each Handler's own")

	require.NoError(t, r.client.HSet(t.Context(), "guard:{alice by hand}", "a", "b").Err())
	fresh := guardweb.Handler(r.inspector, guardweb.MaskKeys())
	a = get(t, fresh, "/")
	assert.Contains(t, a.body, "is not a lock")
	assert.NotContains(t, a.body, "alice")

	a = post(t, h, "/break", word, lease.Fence())
	assert.Equal(t, 303, a.code)
	assert.NotContains(t, a.location, "alice")
	assert.Equal(t, 200, get(t, h, "/"+a.location).code, "it is free by now")
}

func TestLeasesOfThisProcess(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	h := guardweb.Handler(r.inspector, guardweb.Leases(r.g))
	assert.Contains(t, get(t, h, "/").body, "It holds nothing")
	first := hold(t, r.g, "mine", guard.Name("payment"))
	other := r.guard(t)
	hold(t, other, "its own", guard.Name("stock"))

	h = guardweb.Handler(r.inspector, guardweb.Leases(r.g), guardweb.Leases(other))
	a := get(t, h, "/")
	_, own, found := strings.Cut(a.body, "Leases of this process")
	require.True(t, found)
	for _, text := range []string{"mine", "payment", "its own", "stock", strconv.FormatUint(first.Fence(), 10), "<progress"} {
		assert.Contains(t, own, text)
	}
	held, _, _ := strings.Cut(a.body, "Leases of this process")
	assert.Contains(t, held, "payment", "the name is known of what this process holds")

	masked := guardweb.Handler(r.inspector, guardweb.Leases(r.g), guardweb.MaskKeys())
	assert.NotContains(t, get(t, masked, "/").body, "mine")
}

// However many look, Redis is asked once.
func TestHandler_ListIsMadeOnceForAll(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	lease := hold(t, r.g, "k")
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	scans := func() string {
		info, err := r.client.Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		return regexp.MustCompile(`cmdstat_scan:calls=(\d+)`).FindString(info)
	}
	require.Equal(t, 200, get(t, h, "/").code)
	before := scans()
	require.NotEmpty(t, before)
	for range 20 {
		require.Equal(t, 200, get(t, h, "/").code)
	}
	assert.Equal(t, before, scans())
	require.Equal(t, 303, post(t, h, "/break", "k", lease.Fence()).code)
	assert.Contains(t, get(t, h, "/").body, "Nothing is held", "what was just done is seen")
}

// Several holders are rows and sections of their own, and each can be ended by itself.
func TestHandler_PageShowsSeveralHolders(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	first := hold(t, r.g, "rates", guard.Shared(), guard.Metadata("reader 1"))
	second := hold(t, r.g, "rates", guard.Limit(3), guard.Metadata("reader 2"))
	r.queue(t, "rates", 1)
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	for path, sections := range map[string][]string{
		"/": {`reader 1</bdi> <span class="quiet">shared</span>`, `reader 2</bdi> <span class="quiet">at most 3</span>`},
		"/lock?key=rates": {
			"reader 1", "reader 2", "<dt>Beside others<dd>", `<span class="quiet">shared</span>`, `<span class="quiet">at most 3</span>`,
			"revoke?fence=" + strconv.FormatUint(first.Fence(), 10), "break?fence=" + strconv.FormatUint(second.Fence(), 10),
		},
	} {
		a := get(t, h, path)
		require.Equal(t, 200, a.code)
		for _, want := range sections {
			assert.Contains(t, a.body, want, path)
		}
		assert.NotContains(t, a.body, "MinHold")
	}
	require.Equal(t, 303, post(t, h, "/revoke", "rates", first.Fence()).code)
	<-first.Context().Done()
	require.ErrorIs(t, first.Err(), guard.ErrRevoked)
	require.NoError(t, second.Check(t.Context()))
}

func TestHandler_PageShowsAKeyThatIsKeptAfterItsWork(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	require.NoError(t, hold(t, r.g, "report", guard.MinHold(time.Hour)).Release(t.Context()))
	h := guardweb.Handler(r.inspector, everybody(guardweb.View))
	assert.Contains(t, get(t, h, "/").body, "done, kept by its MinHold")
	assert.Contains(t, get(t, h, "/lock?key=report").body, "The key is kept until its MinHold is over.")
}
