package guardweb_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestPage_ShowsHoldersAndWaitingCallers(t *testing.T) {
	r := newEnv(t)
	first := r.hold("order:<42>", guard.Metadata("request & more"))
	r.hold("user:1")
	r.queue("order:<42>", 3, false)
	p := r.page()
	list := p.says("/", "order:&lt;42&gt;", "request &amp; more", "user:1",
		`<td data-label="Waiting"><span><b class="pill waits">3</b> <span class="quiet">longest `, `href="lock?key=order%3A%3C42%3E"`)
	lock := p.says("/lock?key=order:%3C42%3E", "request &amp; more", text(first.Fence()), "<tr><td>1<td>", "<tr><td>2<td>", "<tr><td>3<td>",
		`<bdi class="key">order:&lt;42&gt;</bdi> <b class="pill held">held</b>`)
	for _, body := range []string{list, lock} {
		assert.NotContains(t, body, guardhook.Owner(first), "owners are secrets")
		assert.NotContains(t, body, "revoke?", "view only")
	}
	assert.NotContains(t, p.says("/?match=user:*", "user:1"), "order:&lt;42&gt;")
	p.says("/?match=none*", `No lock is held whose key matches <bdi class="key">none*</bdi>.`)
	p.says("/lock?key=free", "This key is free", `<a href="./?match=*free*">Search</a>`, "No other process waits")
}

// The list shows the first of several holders, and their lock all of them: each can be ended by itself.
func TestPage_ShowsSeveralHolders(t *testing.T) {
	r := newEnv(t)
	first := r.hold("rates", guard.Shared(), guard.Metadata("reader 1"))
	second := r.hold("rates", guard.Limit(3), guard.Metadata("reader 2"))
	r.queue("rates", 1, false)
	p := r.page(acting)
	list := p.says("/", `</bdi> and 1 more <span class="quiet">shared</span>`, `reader 1</bdi>`)
	assert.NotContains(t, list, "reader 2")
	lock := p.says("/lock?key=rates", "reader 1", "reader 2", `<span class="quiet">shared</span>`, `<span class="quiet">at most 3</span>`,
		"revoke?fence="+text(first.Fence()), "break?fence="+text(second.Fence()))
	assert.NotContains(t, list+lock, "MinHold")
	require.Equal(t, 303, p.post("/revoke", "rates", first.Fence(), "").code)
	<-first.Context().Done()
	require.ErrorIs(t, first.Err(), guard.ErrRevoked)
	require.NoError(t, second.Check(t.Context()))
}

func TestPage_ShowsAKeyThatIsKeptAfterItsWork(t *testing.T) {
	r := newEnv(t)
	require.NoError(t, r.hold("report", guard.MinHold(time.Hour)).Release(t.Context()))
	r.page().says("/", "kept by MinHold")
	r.page().says("/lock?key=report", "The key is kept until its MinHold is over.", `<b class="pill kept">kept</b>`)
}

// Redis does not know of callers that wait in the holder's process. The page of that process does.
func TestPage_ShowsTheWaitingCallersOfItsProcess(t *testing.T) {
	r := newEnv(t)
	r.hold("k")
	r.queue("k", 3, true)
	const not = "Callers that wait in a holder's own process are not counted."
	r.page().says("/", not, `<td data-label="Waiting"><span><span class="quiet">0</span></span>`)
	r.page().says("/lock?key=k", "No other process waits.")
	own := r.page(guardweb.Leases(r.guard()), guardweb.Leases(r.g))
	assert.NotContains(t, own.says("/", `<b class="pill waits">3 in this process</b></span>`), not)
	own.says("/lock?key=k", `<b class="pill waits">3</b> callers wait in this process.`)
}

// A revoked hold and a very long hold have a coloured edge.
func TestPage_MarksRowsThatNeedAPerson(t *testing.T) {
	r := newEnv(t)
	r.hold("fine")
	lease := r.hold("revoked")
	old := time.Now().Add(-11 * time.Minute).UnixMicro()
	require.NoError(t, r.client.HSet(t.Context(), "redlatch:{long}", "0123456789abcdef-1", fmt.Sprintf("1 %d 0 - ", old)).Err())
	p := r.page(acting)
	require.Equal(t, 303, p.post("/revoke", "revoked", lease.Fence(), "").code)
	body := p.says("/")
	for key, row := range map[string]string{"fine": "<tr>", "revoked": `<tr class="revoked">`, "long": `<tr class="long">`} {
		assert.Contains(t, body, row+`<td data-label="Key" class="key"><a href="lock?key=`+key)
	}
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
	assert.Equal(t, "no-store", r.page().get("/").header.Get("Cache-Control"))

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
	p.codes(map[string]int{
		"/lock": 400, "/lock?key=" + strings.Repeat("k", 513): 400, "/lock?key=%ff": 400, "/more": 404, "/lock?key=by+hand": 422, "/?sort=size": 400,
	})
	assert.Contains(t, p.get("/lock").body, "key must be UTF-8 of 1 to 512 bytes.")
	assert.Contains(t, p.get("/lock").body, "<title>Bad Request · redlatch")
	foreign := p.get("/lock?key=by+hand").body
	assert.Contains(t, foreign, "<title>Unprocessable Entity · redlatch")
	assert.Contains(t, foreign, "Redis at ")
	assert.Contains(t, foreign, "is not a lock: ")
	assert.Equal(t, 400, p.get("/revoke?fence=1").code)
	assert.Contains(t, p.get("/?sort=size").body, "sort is none of waiting, held, key")
	assert.Equal(t, 400, p.post("/revoke", "k", "ten", "").code)
	assert.Equal(t, 400, p.post("/revoke", "k", "-1", "").code)
	assert.Equal(t, 400, p.post("/revoke", "", "1", "").code)
	long := p.post("/revoke", "k", "1", "", func(r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader("key=k&fence=1&more=" + strings.Repeat("m", 64<<10)))
	})
	assert.Equal(t, 400, long.code)
	assert.Contains(t, long.body, "at most 64 KiB")
	assert.Contains(t, long.body, "<title>Bad Request · redlatch")
	assert.Equal(t, 404, p.post("/revoke", "k", "1", "").code)
	assert.Equal(t, 422, p.post("/break", "by hand", "1", "").code)
	p.says("/", "is not a lock")
	p.says("/?match=by*", "is not a lock")
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

func TestPage_SaysWhichRedisItShows(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	require.NoError(t, s.Client(t).Do(t.Context(), "acl", "setuser", "viewer", "on", ">s3cret", "~*", "&*", "+@all").Err())
	r := &env{T: t, inspector: inspect.New(s.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DB = "viewer", "s3cret", 3 }), inspect.Prefix("shop"))}
	for _, target := range []string{"/", "/lock?key=k"} {
		assert.NotContains(t, r.page().says(target, "<bdi>Redis at "+s.Addr()+", database 3, prefix shop</bdi>"), "s3cret")
	}
	assert.NotContains(t, r.page(anyone(guardweb.None)).get("/").body, s.Addr(), "it is for viewers")
}

// What others wrote into keys and metadata stays within its place.
func TestPage_TextsOfOthersAreIsolated(t *testing.T) {
	const turned, seen = "a\u2069\u202eb", `a\u2069\u202eb`
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
	lease := r.hold("alice@example.com", guard.Metadata("alice's request"))
	require.NoError(t, r.client.HSet(t.Context(), "redlatch:{alice by hand}", "a", "b").Err())
	p := r.page(acting, guardweb.MaskKeys())
	list := p.says("/", "is not a lock")
	word := masked.FindString(list)
	require.NotEmpty(t, word)
	for _, target := range []string{
		"/", "/lock?key=" + word, "/lock?key=alice@example.com", "/revoke?key=" + word + "&fence=" + text(lease.Fence()), "/lock?key=key-0000000000000000",
	} {
		assert.NotContains(t, p.get(target).body, "alice", target)
	}
	p.says("/lock?key="+word, text(lease.Fence()))
	p.codes(map[string]int{"/lock?key=key-0000000000000000": 404})
	assert.Equal(t, 404, p.post("/break", "key-0000000000000000", lease.Fence(), "").code)
	assert.NotContains(t, r.page(guardweb.MaskKeys()).says("/"), word, "a secret of each Handler's own")
	a := p.post("/break", word, lease.Fence(), "")
	assert.Equal(t, 303, a.code)
	assert.NotContains(t, a.location, "alice")
	p.codes(map[string]int{"/" + a.location: 200}) // it is free by now
}

func TestPage_ErrorsAreInAnOperatorsWords(t *testing.T) {
	t.Parallel()
	redisError := func(text string) error { return fmt.Errorf("x: %w", redistest.ReplyError(text)) }
	for want, err := range map[string]error{
		"does not accept the user or the password": redisError("WRONGPASS invalid username-password pair or user is disabled."),
		"lacks a right":                       redisError("NOPERM User u has no permissions to run the 'scan' command"),
		"is loading its data":                 redisError("LOADING Redis is loading the dataset in memory"),
		"is a replica":                        redisError("READONLY You can't write against a read only replica."),
		"The Redis Cluster is down":           redisError("CLUSTERDOWN Hash slot not served"),
		"no memory left":                      redisError("OOM command not allowed when used memory > 'maxmemory'."),
		"refuses to answer (ERR).":            redisError("ERR unknown command with args beginning with 'alice'"),
		"did not answer in time":              context.DeadlineExceeded,
		"closed the connection":               io.EOF,
		"Redis cannot be reached":             errors.New("alice"),
		"as many clients as it accepts":       redisError("ERR max number of clients reached"),
		"connections of this process":         errors.New("redis: connection pool timeout"),
		"ended before Redis answered":         context.Canceled,
		"takes no writes":                     redisError("MISCONF Redis is configured to save RDB snapshots"),
		"busy with a script":                  redisError("BUSY Redis is busy running a script."),
		"has lost its primary":                redisError("MASTERDOWN Link with MASTER is down"),
		"The Redis user of this process ":     redisError("ERR in script: NOPERM no permissions"),
		"name of the Redis host is not known": &net.DNSError{Err: "alice"},
		"The TLS handshake with Redis failed": tls.RecordHeaderError{Msg: "alice"},
	} {
		got := guardweb.Words(&guard.StoreError{Op: "inspect", Err: err})
		assert.Contains(t, got, want)
		assert.NotContains(t, got, "alice")
		assert.NotContains(t, got, "guard:")
	}
	for err, want := range map[error]string{
		context.DeadlineExceeded:              "did not answer in time", // also without a StoreError
		context.Canceled:                      "ended before Redis answered",
		errors.New("as it is"):                "as it is",
		storeError(os.ErrDeadlineExceeded):    "did not answer in time",
		storeError(&net.OpError{Err: io.EOF}): "closed the connection",
		storeError(syscall.ECONNRESET):        "closed the connection",
		storeError(syscall.EPIPE):             "closed the connection",
		storeError(&tls.CertificateVerificationError{Err: errors.New("alice")}): "The TLS handshake",
		storeError(x509.UnknownAuthorityError{}):                                "The TLS handshake",
	} {
		assert.Contains(t, guardweb.Words(err), want)
	}
	nowhere := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer func() { assert.NoError(t, nowhere.Close()) }()
	p := page{t, guardweb.Handler(inspect.New(nowhere), acting)}
	for _, target := range []string{"/lock?key=k", "/"} {
		a := p.get(target)
		assert.Equal(t, 503, a.code)
		assert.Contains(t, a.body, "Nothing listens at that address", target)
	}
	assert.Equal(t, 503, p.post("/break", "k", 1, "").code)
	assert.Equal(t, 503, p.post("/forget", "k", 1, "done").code)
}

func storeError(err error) error { return &guard.StoreError{Op: "inspect", Err: err} }
