package guardweb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// scans counts the slices of SCAN of a client, and lets a test do something about each.
type scans struct {
	n  atomic.Int64
	do func(n int64, next func() error) error
}

func (*scans) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*scans) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *scans) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "scan" {
			return next(ctx, cmd)
		}
		return s.do(s.n.Add(1), func() error { return next(ctx, cmd) })
	}
}

// counted gives an Inspector of a Redis with more keys than one slice of SCAN has.
func counted(t *testing.T, do func(n int64, next func() error) error) (*inspect.Inspector, *scans) {
	t.Helper()
	rdb := redistest.Start(t).Client(t)
	for n := range 1500 {
		require.NoError(t, rdb.Set(t.Context(), "session:"+strconv.Itoa(n), "x", 0).Err())
	}
	s := &scans{do: do}
	rdb.AddHook(s)
	return inspect.New(rdb), s
}

// lists is how many the budget allows in a time, if Redis does not work for them for long.
func lists(since time.Time) int64 { return 1 + int64(time.Since(since)/time.Second) }

func TestList_OneBudgetForAllThatIsLookedFor(t *testing.T) {
	t.Parallel()
	i, s := counted(t, func(_ int64, next func() error) error { return next() })
	h, begun := guardweb.Handler(i), time.Now()
	require.Equal(t, 200, get(t, h, "/").code)
	slices := s.n.Load()
	require.Greater(t, slices, int64(1))
	for n := range 30 {
		require.Equal(t, 200, get(t, h, "/?match=order:"+strconv.Itoa(n)+"*").code)
	}
	assert.LessOrEqual(t, s.n.Load(), slices*lists(begun))
}

func TestList_AFailedListIsInTheBudget(t *testing.T) {
	t.Parallel()
	i, s := counted(t, func(n int64, next func() error) error {
		if n%2 == 0 {
			return errors.New("the connection is cut")
		}
		return next()
	})
	h, begun := guardweb.Handler(i), time.Now()
	for n := range 30 {
		require.Equal(t, 503, get(t, h, "/?match="+strconv.Itoa(n)+"*").code)
	}
	assert.LessOrEqual(t, s.n.Load(), 2*lists(begun))
}

// Whatever becomes of a list: what Redis worked for it is a twentieth of the time until the next.
func TestList_RedisWorksATwentiethOfTheTime(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"a list": false, "a list that fails": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const took = 400 * time.Millisecond
			i, s := counted(t, func(n int64, next func() error) error {
				if n%2 == 1 {
					time.Sleep(took) // this Redis is slow
				} else if fails {
					return errors.New("the connection is cut")
				}
				return next()
			})
			h, begun := guardweb.Handler(i), time.Now()
			get(t, h, "/")
			for time.Since(begun) < 2*time.Second {
				get(t, h, "/?match=a*")
				time.Sleep(10 * time.Millisecond) // viewers come again and again
			}
			if time.Since(begun) < 20*took {
				assert.LessOrEqual(t, s.n.Load(), int64(3))
			}
		})
	}
}

// A list that is begun is made: a viewer that leaves does not have the next one begin anew.
func TestList_AListIsMadeToItsEndWithoutItsViewer(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	i, s := counted(t, func(_ int64, next func() error) error {
		leave()
		return next()
	})
	list := guardweb.Lister(i, time.Minute)
	_, _, err := list(ctx)
	require.NoError(t, err)
	assert.Equal(t, int64(2), s.n.Load())
}

func TestList_AListThatTakesTooLongIsCut(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for n := range 1500 {
		require.NoError(t, rdb.HSet(t.Context(), "guard:{"+strconv.Itoa(n)+"}", "12345678-1", "1 7 0 - ").Err())
	}
	s := &scans{do: func(n int64, next func() error) error {
		if n == 1 {
			time.Sleep(600 * time.Millisecond) // this Redis is slow
		}
		if n > 1 {
			time.Sleep(time.Second) // and then slower
		}
		return next()
	}}
	rdb.AddHook(s)
	list := guardweb.Lister(inspect.New(rdb), time.Second)
	locks, cut, err := list(t.Context())
	require.NoError(t, err)
	assert.True(t, cut)
	assert.Positive(t, locks)
	assert.Less(t, locks, 1500)
	n := s.n.Load()
	_, cut, _ = list(t.Context())
	assert.True(t, cut, "it is not made anew")
	assert.Equal(t, n, s.n.Load())
}

func TestList_AFilterEndsWithItsViewer(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	assert.Equal(t, 2, guardweb.Filter(ctx, "a", "b"))
	leave()
	assert.Zero(t, guardweb.Filter(ctx, "a", "b"))
}

func TestList_MatchHasItsBound(t *testing.T) {
	t.Parallel()
	h := guardweb.Handler(newEnv(t).inspector)
	for _, match := range []string{"[" + strings.Repeat("a", 511), strings.Repeat("*", 512)} {
		assert.Equal(t, 200, get(t, h, "/?match="+match).code)
	}
	a := get(t, h, "/?match="+strings.Repeat("a", 513))
	assert.Equal(t, 400, a.code)
	assert.Contains(t, a.body, "match has 513 bytes, the longest is 512")
	a = get(t, h, "/?match=%ff")
	assert.Equal(t, 400, a.code)
	assert.Contains(t, a.body, "match is not UTF-8")
}

// A whole key takes no list: it is found however old that is, and however many locks there are.
func TestList_AWholeKeyIsFoundWithoutAList(t *testing.T) {
	t.Parallel()
	i, s := counted(t, func(_ int64, next func() error) error { return next() })
	h := guardweb.Handler(i)
	assert.Contains(t, get(t, h, "/?match=k").body, "Nothing is held under such a key")
	assert.Zero(t, s.n.Load())
}

// With wildcards, a key would be read letter by letter.
func TestList_MaskedKeysHaveNoWildcards(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	hold(t, r.g, "alice@example.com")
	h := guardweb.Handler(r.inspector, guardweb.MaskKeys())
	for _, match := range []string{"a*", "alice?example.com", "[a]lice@example.com", `\alice@example.com`} {
		a := get(t, h, "/?match="+url.QueryEscape(match))
		assert.Equal(t, 400, a.code, match)
		assert.Contains(t, a.body, "match must be a whole key")
		assert.NotContains(t, a.body, "alice")
	}
	a := get(t, h, "/?match=alice@example.com")
	assert.Equal(t, 200, a.code)
	word := regexp.MustCompile(`key-[0-9a-f]{16}`).FindString(a.body)
	require.NotEmpty(t, word, "known keys can be asked for")
	assert.Contains(t, get(t, h, "/?match="+word).body, `"lock?key=`+word)
	assert.Contains(t, get(t, h, "/?match=bob").body, "Nothing is held under such a key")
	assert.Contains(t, get(t, h, "/?match=key-0000000000000000").body, "Nothing is held under such a key")
}

func TestList_MaskedRowsAreInTheOrderOfTheirWords(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	for n := range 20 {
		hold(t, r.g, "user:"+strconv.Itoa(100+n))
		require.NoError(t, r.client.HSet(t.Context(), "guard:{by hand "+strconv.Itoa(n)+"}", "a", "b").Err())
	}
	h := guardweb.Handler(r.inspector, guardweb.MaskKeys())
	for _, page := range []string{"/", "/?sort=name"} {
		a := get(t, h, page)
		held, broken, _ := strings.Cut(a.body, "</table>")
		for _, part := range []string{held, broken} {
			words := regexp.MustCompile(`<bdi>(key-[0-9a-f]{16})`).FindAllString(part, -1)
			require.Len(t, words, 20)
			assert.True(t, slices.IsSorted(words), page)
		}
	}
}

// rowsOf are the keys of a list, in their order.
func rowsOf(a answer) (keys []string) {
	for _, m := range regexp.MustCompile(`class="key"><a href="[^"]*"><bdi>([^<]*)`).FindAllStringSubmatch(a.body, -1) {
		keys = append(keys, m[1])
	}
	return keys
}

func TestList_Sorts(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	a, b := r.guard(t, guard.Instance("web-2")), r.guard(t, guard.Instance("web-1"))
	holdOne := func(g *guard.Guard, key string, ttl time.Duration) {
		hold(t, g, key, guard.TTL(ttl))
		require.Eventually(t, func() bool { // the next one is younger, in whole milliseconds
			info, err := r.inspector.Get(t.Context(), key)
			return err == nil && time.Since(info.Holders[0].Since) > 2*time.Millisecond
		}, patience, time.Millisecond)
	}
	holdOne(a, "y", time.Minute)
	holdOne(b, "x", 10*time.Minute)
	holdOne(a, "z", 5*time.Minute)
	r.queue(t, "z", 2)
	r.queue(t, "y", 1)
	require.Eventually(t, func() bool { // instances say their names asynchronously
		info, err := r.inspector.Get(t.Context(), "x")
		return err == nil && info.Holders[0].Instance == "web-1"
	}, patience, time.Millisecond)
	h := guardweb.Handler(r.inspector)
	for by, want := range map[string]string{
		"": "x y z", "key": "x y z", "-key": "z y x", "name": "x y z", "holder": "x y z", "-holder": "y z x", "for": "z x y", "-for": "y x z",
		"left": "y z x", "-left": "x z y", "waiting": "x y z", "-waiting": "z y x", "fence": "y x z", "-fence": "z x y",
	} {
		page := get(t, h, "/?match=*&sort="+by)
		require.Equal(t, 200, page.code)
		assert.Equal(t, want, strings.Join(rowsOf(page), " "), by)
	}
	page := get(t, h, "/?match=*&sort=-waiting").body
	assert.Contains(t, page, `<th aria-sort="descending"><a href="./?match=%2A&amp;sort=waiting">Processes waiting`)
	assert.Contains(t, page, `<th><a href="./?match=%2A&amp;sort=key">Key`)
	assert.Contains(t, page, `<input type="hidden" name="sort" value="-waiting">`, "the next search keeps it")
	bad := get(t, h, "/?sort=size")
	assert.Equal(t, 400, bad.code)
	assert.Contains(t, bad.body, "sort is none of key, name, holder, for, left, waiting, fence")
}

func TestList_TheOutageIsShownWithWhatIsKnown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr())
	g, err := guard.New(s.Client(t))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	hold(t, g, "order:1")
	rdb := proxy.Client(t, func(o *redis.Options) { o.MaxRetries = -1; o.ReadTimeout = 100 * time.Millisecond })
	h := guardweb.Handler(inspect.New(rdb), guardweb.Leases(g))
	a := get(t, h, "/")
	require.Equal(t, 200, a.code)
	assert.Contains(t, a.body, `<p id="status" role="status"></p>`)
	assert.NotContains(t, a.body, `class="old"`)

	proxy.Cut()
	status := regexp.MustCompile(`role="status">Redis has not answered since \d\d:\d\d:\d\d UTC; this is old\. Redis closed the connection\.</p>`)
	require.Eventually(t, func() bool {
		a = get(t, h, "/")
		return a.code == 503
	}, patience, 10*time.Millisecond)
	assert.Regexp(t, status, a.body)
	assert.Contains(t, a.body, `<section id="held" class="old">`)
	assert.Equal(t, []string{"order:1", "order:1"}, rowsOf(a), "what was held, and what this process holds")
	assert.Equal(t, []string{"order:1", "order:1"}, rowsOf(get(t, h, "/?match=order:1")))
	a = get(t, h, "/lock?key=order:1")
	assert.Equal(t, 503, a.code)
	assert.Regexp(t, status, a.body)
	assert.Contains(t, a.body, `data-refresh="2000" data-silent`)
	first := get(t, guardweb.Handler(inspect.New(rdb), guardweb.Leases(g)), "/")
	assert.Equal(t, 503, first.code)
	assert.Contains(t, first.body, "Redis has not answered yet. Redis closed the connection.")
	assert.Contains(t, first.body, "What is held is not known.")
	assert.Equal(t, []string{"order:1"}, rowsOf(first), "what this process holds")

	proxy.Heal()
	require.Eventually(t, func() bool {
		a = get(t, h, "/")
		return a.code == 200
	}, patience, 10*time.Millisecond)
	assert.Contains(t, a.body, `<p id="status" role="status"></p>`)
}

// A viewer does not wait for a list that does not come, where there is an older one.
func TestList_TheOutageIsShownWhileARequestHangs(t *testing.T) {
	t.Parallel()
	hangs, over, silent := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	i, _ := counted(t, func(n int64, next func() error) error {
		if n > 2 { // the second list
			<-hangs
		}
		return next()
	})
	list := guardweb.Lister(i, time.Hour)
	_, _, err := list(t.Context())
	require.NoError(t, err)
	var viewers sync.WaitGroup
	for range 2 { // one of them makes the list
		viewers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if _, _, err := list(t.Context()); err != nil {
					select {
					case silent <- err:
					default:
					}
				}
			}
		})
	}
	select {
	case err := <-silent:
		require.ErrorIs(t, err, context.DeadlineExceeded)
	case <-time.After(patience):
		assert.Fail(t, "nobody was notified")
	}
	close(hangs)
	close(over)
	viewers.Wait()
}

// Where the next list is far off, an outage and its end are seen all the same.
func TestList_TheOutageIsSeenBetweenTwoLists(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	rdb := proxy.Client(t, func(o *redis.Options) { o.MaxRetries = -1 })
	s := &scans{do: func(_ int64, next func() error) error {
		time.Sleep(2 * time.Second) // this Redis is slow: the next list is due in 40 s
		return next()
	}}
	rdb.AddHook(s)
	h := guardweb.Handler(inspect.New(rdb))
	require.Equal(t, 200, get(t, h, "/").code)
	becomes := func(code int) {
		require.Eventually(t, func() bool { return get(t, h, "/").code == code }, patience, 10*time.Millisecond)
	}
	proxy.Cut()
	becomes(503)
	proxy.Heal()
	becomes(200)
	assert.Equal(t, int64(1), s.n.Load())
}

func TestList_ThePageSaysWhichRedisItShows(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	require.NoError(t, s.Client(t).Do(t.Context(), "acl", "setuser", "viewer", "on", ">s3cret", "~*", "&*", "+@all").Err())
	rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DB = "viewer", "s3cret", 3 })
	i := inspect.New(rdb, inspect.Prefix("shop"))
	h := guardweb.Handler(i)
	for _, page := range []string{"/", "/lock?key=k"} {
		a := get(t, h, page)
		assert.Contains(t, a.body, "<bdi>Redis at "+s.Addr()+", database 3, prefix shop</bdi>")
		assert.NotContains(t, a.body, "s3cret")
	}
	assert.NotContains(t, get(t, guardweb.Handler(i, everybody(guardweb.None)), "/").body, s.Addr(), "it is for viewers")
}

// What others wrote into keys and metadata stays within its place.
func TestList_TextsOfOthersAreIsolated(t *testing.T) {
	t.Parallel()
	const turned, seen = "a\u2069\u202eb", `a\u2069\u202eb`
	r := newEnv(t)
	hold(t, r.g, turned, guard.Metadata("m"+turned), guard.Name("n"+turned))
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act), guardweb.Leases(r.g))
	list := get(t, h, "/").body
	for _, text := range []string{"<bdi>" + seen + "</bdi>", "m" + seen + "</bdi>", "<bdi>n" + seen + "</bdi>"} {
		assert.Contains(t, list, text)
	}
	lock := get(t, h, "/lock?key="+url.QueryEscape(turned)).body
	for _, text := range []string{"<bdi>" + seen + "</bdi>", "<bdi>m" + seen + "</bdi>", "<title>" + seen + " · redlatch</title>"} {
		assert.Contains(t, lock, text)
	}
	for _, body := range []string{list, lock} {
		assert.NotContains(t, body, "\u202e", "it is in links only, where it is escaped")
	}
}

func TestList_BarsHaveAName(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	hold(t, r.g, "k")
	h := guardweb.Handler(r.inspector, guardweb.Leases(r.g))
	for _, page := range []string{"/", "/lock?key=k"} {
		body := get(t, h, page).body
		assert.Contains(t, body, "<progress")
		for _, bar := range regexp.MustCompile(`<progress[^>]*>`).FindAllString(body, -1) {
			assert.Contains(t, bar, `aria-label="Time left"`)
		}
	}
}

// A link cannot say that something was done.
func TestList_OnlyThePageSaysWhatWasDone(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	first, second := hold(t, r.g, "k"), hold(t, r.g, "other")
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	told := func(h http.Handler, link string) bool { return strings.Contains(get(t, h, link).body, `class="told"`) }
	done := post(t, h, "/break", "k", first.Fence())
	require.Equal(t, 303, done.code)
	assert.True(t, told(h, "/"+done.location))
	assert.False(t, told(guardweb.Handler(r.inspector), "/"+done.location), "another Handler's")
	receipt := regexp.MustCompile(`done=([^&]*)`).FindStringSubmatch(done.location)[1]
	at := strconv.FormatInt(time.Now().Unix(), 10)
	for _, spoof := range []string{
		"break", "revoke", "break." + strconv.FormatUint(second.Fence(), 10) + "." + at + ".0000000000000000",
		strings.Replace(receipt, "break", "revoke", 1), receipt,
	} {
		assert.False(t, told(h, "/lock?key=other&done="+spoof), spoof)
	}
	for _, spoof := range []string{"break", "revoke", "", strings.Replace(receipt, "break", "revoke", 1), receipt + ".1", "...", "break.1.x.y"} {
		assert.False(t, told(h, "/lock?key=k&done="+spoof), spoof)
	}
}

// Who waits in the holder's process is not in Redis. Its own page knows.
func TestList_CallersOfThisProcessAreShown(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	hold(t, r.g, "k")
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	t.Cleanup(func() { cancel(); waiting.Wait() })
	for range 3 {
		waiting.Go(func() {
			_ = r.g.WithLock(ctx, guard.Key("k"), func(context.Context) error { return nil })
		})
	}
	require.Eventually(t, func() bool { return r.g.Leases()[0].Waiting == 3 }, patience, time.Millisecond)
	for _, page := range []string{"/", "/lock?key=k"} {
		assert.NotContains(t, get(t, guardweb.Handler(r.inspector), page).body, "obody waits")
	}
	apart := get(t, guardweb.Handler(r.inspector), "/lock?key=k").body
	assert.Contains(t, apart, "No other process waits.")
	assert.Contains(t, apart, "Callers that wait within the holder's process are not in Redis.")
	h := guardweb.Handler(r.inspector, guardweb.Leases(r.g))
	assert.Contains(t, get(t, h, "/lock?key=k").body, "This process holds the key, and 3 of its callers wait.")
	assert.Contains(t, get(t, h, "/").body, `<span>0 <span class="quiet">and 3 in this process</span></span>`)
}

func TestList_ErrorsAreInAnOperatorsWords(t *testing.T) {
	t.Parallel()
	redisError := func(text string) error { return fmt.Errorf("x: %w", replyError(text)) }
	for want, err := range map[string]error{
		"does not accept the user or the password": redisError("WRONGPASS invalid username-password pair or user is disabled."),
		"lacks a right":                   redisError("NOPERM User u has no permissions to run the 'scan' command"),
		"is loading its data":             redisError("LOADING Redis is loading the dataset in memory"),
		"is a replica":                    redisError("READONLY You can't write against a read only replica."),
		"The Redis Cluster is down":       redisError("CLUSTERDOWN Hash slot not served"),
		"no memory left":                  redisError("OOM command not allowed when used memory > 'maxmemory'."),
		"refuses to answer (ERR).":        redisError("ERR unknown command with args beginning with 'alice'"),
		"did not answer in time":          context.DeadlineExceeded,
		"closed the connection":           io.EOF,
		"Redis cannot be reached":         errors.New("alice"),
		"as many clients as it accepts":   redisError("ERR max number of clients reached"),
		"connections of this process":     errors.New("redis: connection pool timeout"),
		"ended before Redis answered":     context.Canceled,
		"takes no writes":                 redisError("MISCONF Redis is configured to save RDB snapshots"),
		"busy with a script":              redisError("BUSY Redis is busy running a script."),
		"has lost its primary":            redisError("MASTERDOWN Link with MASTER is down"),
		"The Redis user of this process ": redisError("ERR in script: NOPERM no permissions"),
	} {
		got := guardweb.Words(&guard.StoreError{Op: "inspect", Err: err})
		assert.Contains(t, got, want)
		assert.NotContains(t, got, "alice")
		assert.NotContains(t, got, "guard:")
	}
	nobody := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer func() { assert.NoError(t, nobody.Close()) }()
	assert.Contains(t, get(t, guardweb.Handler(inspect.New(nobody)), "/").body, "Nothing listens at that address")
	h := guardweb.Handler(newEnv(t).inspector)
	assert.Contains(t, get(t, h, "/lock").body, "key must be UTF-8 of 1 to 512 bytes.")
}

type replyError string

func (e replyError) Error() string { return string(e) }
func (e replyError) RedisError()   {}
