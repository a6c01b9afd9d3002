package guardweb_test

import (
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestList_SearchForAWholeKeyShowsItsLock(t *testing.T) {
	p := newEnv(t).page()
	for match, link := range map[string]string{"k": "lock?key=k", "a b&c": "lock?key=a+b%26c"} {
		a := p.get("/?match=" + url.QueryEscape(match))
		assert.Equal(t, 303, a.code)
		assert.Equal(t, link, a.location)
	}
}

// With wildcards, a masked key would be read letter by letter.
func TestList_MaskedKeysHaveNoWildcards(t *testing.T) {
	r := newEnv(t)
	r.hold("alice@example.com")
	p := r.page(guardweb.MaskKeys())
	for _, match := range []string{"a*", "alice?example.com", "[a]lice@example.com", `\alice@example.com`} {
		a := p.get("/?match=" + url.QueryEscape(match))
		assert.Equal(t, 400, a.code, match)
		assert.Contains(t, a.body, "match must be a whole key")
		assert.NotContains(t, a.body, "alice")
	}
	a := p.get("/?match=alice@example.com")
	assert.Equal(t, 303, a.code)
	word := masked.FindString(a.location)
	require.Equal(t, "lock?key="+word, a.location, "known keys can be searched for")
	assert.Equal(t, a.location, p.get("/?match="+word).location)
	assert.Regexp(t, `^lock\?key=key-[0-9a-f]{16}$`, p.get("/?match=bob").location, "held or not")
	assert.Equal(t, 404, p.get("/?match=key-0000000000000000").code)
}

// rowsOf returns the keys of a list in order.
func rowsOf(body string) (keys []string) {
	for _, m := range regexp.MustCompile(`class="key"><a href="[^"]*"><bdi>([^<]*)`).FindAllStringSubmatch(body, -1) {
		keys = append(keys, m[1])
	}
	return keys
}

// becomes waits for the code of the list.
func (p page) becomes(code int) (a answer) {
	p.Helper()
	require.Eventually(p, func() bool { a = p.get("/"); return a.code == code }, patience, 10*time.Millisecond)
	return a
}

func TestList_OutageIsShownWithTheLastList(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr())
	r := &env{T: t, client: s.Client(t)}
	r.g = r.guard()
	r.hold("order:1")
	r.inspector = inspect.New(proxy.Client(t, func(o *redis.Options) { o.MaxRetries = -1; o.ReadTimeout = 100 * time.Millisecond }))
	p := r.page()
	assert.NotContains(t, p.says("/", `<p id="status" role="status"></p>`), `class="old"`)

	proxy.Cut()
	const says = `role="status">Redis closed the connection.`
	a := p.becomes(503)
	assert.Contains(t, a.body, says+" This is old.</p>")
	assert.Regexp(t, `<div id="live" data-refresh="\d+" class="old">`, a.body)
	assert.Equal(t, []string{"order:1"}, rowsOf(a.body), "what was held")
	a = p.get("/lock?key=order:1")
	assert.Equal(t, 503, a.code)
	assert.Contains(t, a.body, says+"</p>")
	assert.NotContains(t, a.body, `id="live"`, "what the browser shows stays")
	first := r.page().get("/")
	assert.Equal(t, 503, first.code)
	assert.Contains(t, first.body, says+"</p>")
	assert.Contains(t, first.body, "There is no list yet.")

	proxy.Heal()
	assert.Contains(t, p.becomes(200).body, `<p id="status" role="status"></p>`)
}
