package guardweb_test

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	"github.com/redlatch/redlatch/internal/redistest"
)

// calls counts the commands of one name of a client, and lets a test replace them.
type calls struct {
	name string
	n    atomic.Int64
	do   func(next func() error) error
}

func (*calls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != s.name {
			return next(ctx, cmds)
		}
		s.n.Add(1)
		return s.do(func() error { return next(ctx, cmds) })
	}
}

func (s *calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != s.name {
			return next(ctx, cmd)
		}
		s.n.Add(1)
		return s.do(func() error { return next(ctx, cmd) })
	}
}

// counted returns a Redis with more locks than one slice of SCAN has, and counts the SCANs.
func counted(t *testing.T) (*env, *calls) {
	t.Helper()
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for n := range 1500 {
			p.HSet(t.Context(), "redlatch:{"+strconv.Itoa(n)+"}", "12345678-1", "1 7 0 - ")
		}
		return nil
	})
	require.NoError(t, err)
	s := &calls{name: "scan", do: func(next func() error) error { return next() }}
	rdb.AddHook(s)
	return &env{T: t, client: rdb, inspector: inspect.New(rdb)}, s
}

func TestList_AllLooksShareABudget(t *testing.T) {
	r, s := counted(t)
	p, begun := r.page(), time.Now()
	p.says("/")
	slices := s.n.Load()
	require.Greater(t, slices, int64(1))
	for n := range 30 {
		p.says("/?match=order:" + strconv.Itoa(n) + "*")
	}
	assert.LessOrEqual(t, s.n.Load(), slices*(1+int64(time.Since(begun)/time.Second)))
	before := s.n.Load()
	for match, link := range map[string]string{"k": "lock?key=k", "7": "lock?key=7", "a b&c": "lock?key=a+b%26c"} {
		a := p.get("/?match=" + url.QueryEscape(match))
		assert.Equal(t, 303, a.code)
		assert.Equal(t, link, a.location)
	}
	assert.Equal(t, before, s.n.Load(), "a whole key takes no list")
}

func TestList_MatchHasItsBound(t *testing.T) {
	p := newEnv(t).page()
	for match, says := range map[string]string{strings.Repeat("a", 513): "match has 513 bytes, the longest is 512", "%ff": "match is not UTF-8"} {
		a := p.get("/?match=" + match)
		assert.Equal(t, 400, a.code)
		assert.Contains(t, a.body, says)
	}
	p.says("/?match=[" + strings.Repeat("a", 511))
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

func TestList_MaskedRowsAreInTheOrderOfTheirWords(t *testing.T) {
	r := newEnv(t)
	for n := range 20 {
		r.hold("user:" + strconv.Itoa(100+n))
		require.NoError(t, r.client.HSet(t.Context(), "redlatch:{by hand "+strconv.Itoa(n)+"}", "a", "b").Err())
	}
	p := r.page(guardweb.MaskKeys())
	held, broken, _ := strings.Cut(p.says("/?sort=key"), "</table>")
	for _, part := range []string{held, broken} {
		words := regexp.MustCompile(`<bdi>(key-[0-9a-f]{16})`).FindAllString(part, -1)
		require.Len(t, words, 20)
		assert.True(t, slices.IsSorted(words))
	}
}

// rowsOf returns the keys of a list in order.
func rowsOf(body string) (keys []string) {
	for _, m := range regexp.MustCompile(`class="key"><a href="[^"]*"><bdi>([^<]*)`).FindAllStringSubmatch(body, -1) {
		keys = append(keys, m[1])
	}
	return keys
}

func TestList_Sorts(t *testing.T) {
	r := newEnv(t)
	for _, key := range []string{"y", "x", "z"} { // each is younger, by its fence
		r.hold(key)
	}
	p := r.page()
	for by, want := range map[string]string{"key": "x y z", "held": "y x z"} {
		assert.Equal(t, want, strings.Join(rowsOf(p.says("/?match=*&sort="+by)), " "), by)
	}
	p.says("/?match=*&sort=key", `<th aria-sort="ascending"><a href="./?match=%2A&amp;sort=key">Key</a>`,
		`<th><a href="./?match=%2A&amp;sort=waiting">Waiting</a>`, `<input type="hidden" name="sort" value="key">`)
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
