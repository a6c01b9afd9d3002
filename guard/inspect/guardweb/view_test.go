package guardweb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The views of pages, without a Redis.

// newPage returns a handler of a Redis that does not exist.
func newPage(t *testing.T) *handler {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	i := inspect.New(rdb)
	return &handler{inspector: i, list: newList(i, listTime), authorize: func(*http.Request) Role { return Act }}
}

func TestView_Durations(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	assert.Equal(t, moment{"2027-01-15T08:00:00Z", "2027-01-15 08:00:00 UTC", "2027-01-15 08:00:00 UTC"}, clock(now))
	assert.Equal(t, moment{"2027-01-15T07:59:57Z", "2027-01-15 07:59:57 UTC", "3s"}, ago(now, now.Add(-3*time.Second)))
	assert.Equal(t, "0s", ago(now, now.Add(time.Second)).Text, "clocks differ")
	assert.Equal(t, moment{Text: "unknown"}, ago(now, time.Time{}))
	for d, text := range map[time.Duration]string{
		999*time.Millisecond + 400*time.Microsecond: "999ms", time.Second: "1s", 1230 * time.Millisecond: "1.2s",
		9960 * time.Millisecond: "10s", 10400 * time.Millisecond: "10s", time.Minute: "1m", 90 * time.Second: "1m30s", 10 * time.Minute: "10m",
		time.Hour: "1h", 90 * time.Minute: "1h30m", 2*time.Hour + 31*time.Second: "2h1m", 20 * time.Hour: "20h",
	} {
		assert.Equal(t, text, short(d))
	}
	assert.Equal(t, "no end", left(0))
	assert.Equal(t, "3s", left(3*time.Second))
}

func TestView_RowsOfTheList(t *testing.T) {
	t.Parallel()
	h, now := newPage(t), time.Unix(1_800_000_000, 0)
	f := found{at: now, locks: []inspect.Info{
		{
			Key: "a", Now: now, Queued: 3, Waiting: []inspect.Waiter{{Since: now.Add(-4 * time.Second)}},
			Holders: []inspect.Holder{
				{Instance: "web-1", Metadata: "m", Since: now.Add(-5 * time.Second), Left: 4 * time.Second, Fence: 7, Depth: 1, Limit: 2},
				{Instance: "web-2", Since: now, Fence: 8, Revoked: true},
			},
		},
		{Key: "b", Now: now, Holders: []inspect.Holder{{Since: now.Add(-longHeld - 1), Fence: 8, Depth: 1}}},
		{Key: "c", Now: now, Holders: []inspect.Holder{{Fence: 9}}},
	}, broken: []*inspect.FormatError{{Key: "y", Reason: "no lock"}, {Key: "x", Reason: "a string"}}}
	assert.Equal(t, viewList{
		page: h.page("Locks", 2*time.Second), Sort: "key", At: clock(now), Known: true,
		By: map[string]string{"key": "./?match=&sort=key", "held": "./?match=&sort=held", "waiting": "./?match=&sort=waiting"},
		Rows: []row{
			{
				Key: "a", Link: "lock?key=a", Holder: "web-1", Metadata: "m", Others: 1, Since: ago(now, now.Add(-5*time.Second)),
				Left: "4s", Revoked: true, Limit: 2, Waiting: 3, Oldest: "4s", since: now.Add(-5 * time.Second),
			},
			{Key: "b", Link: "lock?key=b", Since: ago(now, now.Add(-longHeld-1)), Left: "no end", Long: true, since: now.Add(-longHeld - 1)},
			{Key: "c", Link: "lock?key=c", Since: moment{Text: "unknown"}, Left: "no end", Kept: true, since: now},
		},
		Broken: []broken{{"x", "lock?key=x", "a string"}, {"y", "lock?key=y", "no lock"}},
	}, h.viewList(search{sort: "key"}, f))
	for pause, refresh := range map[time.Duration]int64{-1: 2000, 5 * time.Second: 5000, time.Minute: 10_000} {
		v := h.viewList(search{sort: "key"}, found{pause: pause})
		assert.Equal(t, refresh, v.Refresh)
		assert.False(t, v.Known)
	}
	h.mask = newMask()
	v := h.viewList(search{sort: "key"}, f)
	assert.True(t, v.Masked)
	assert.Equal(t, h.word("a") < h.word("b"), slices.IndexFunc(v.Rows, func(r row) bool { return r.Others == 1 }) <
		slices.IndexFunc(v.Rows, func(r row) bool { return r.Long }), "rows are in the order of the words")
}

func TestView_OrdersOfTheList(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	rows := []row{
		{Key: "a", since: at(3)},
		{Key: "b", since: at(1)},
		{Key: "c", since: at(3), Here: 1},
		{Key: "d", since: at(3), Waiting: 1},
		{Key: "e", since: at(2), Waiting: 2},
	}
	for sort, want := range map[string]string{"waiting": "edcba", "held": "beacd", "key": "abcde"} {
		search{sort: sort}.sorted(rows)
		got := ""
		for _, r := range rows {
			got += r.Key
		}
		assert.Equal(t, want, got, sort)
	}
}

func TestView_ListOfAThousandRows(t *testing.T) {
	t.Parallel()
	h, f := newPage(t), found{}
	for n := range maxRows + 1 {
		f.locks = append(f.locks, inspect.Info{Key: fmt.Sprintf("%04d", n), Queued: n, Holders: make([]inspect.Holder, 1)})
	}
	v := h.viewList(search{sort: usualSort}, f)
	assert.Len(t, v.Rows, maxRows)
	assert.Equal(t, "1000", v.Rows[0].Key)
	assert.Equal(t, []string{"1000 of 1001 are shown. Search for fewer keys."}, v.Limits)
	assert.Empty(t, f.limits(maxRows+1))
	assert.Equal(t, []string{
		"More than 10000 locks are held, and this list knows no others. Search for one whole key.",
		"Redis has more keys than can be read in 30s: locks are missing here. Search for one whole key.",
	}, found{more: true, cut: true}.limits(0))
}

func TestView_Lock(t *testing.T) {
	t.Parallel()
	h, now := newPage(t), time.Unix(1_800_000_000, 0)
	before := func(n int) time.Time { return now.Add(-time.Duration(n) * time.Second) }
	info := inspect.Info{
		Key: "k", Now: now, Queued: 5,
		Holders: []inspect.Holder{{Instance: "web-1", Metadata: "m", Since: before(3), Left: 4 * time.Second, Fence: 12, Depth: 1, Limit: 2, Revoked: true}},
		Waiting: []inspect.Waiter{{Instance: "web-2", Since: before(2), Asked: before(1), Limit: 3}},
		Record:  &inspect.Record{State: inspect.RecordDone, Instance: "web-3", Metadata: "r", Since: before(5), Left: time.Minute, Fence: 11, Size: 6},
	}
	want := viewLock{
		page: h.page("k", 2*time.Second), Key: "k", State: "revoked", Queued: 5, More: 4, At: clock(now),
		Holders: []lockHolder{{
			Holder: "web-1", Metadata: "m", Since: ago(now, before(3)), Left: "4s", Fence: 12, Depth: 1, Limit: 2, Revoked: true,
			Revoke: "revoke?fence=12&key=k", Break: "break?fence=12&key=k",
		}},
		Waiting: []lockWaiter{{1, "web-2", ago(now, before(2)), ago(now, before(1)), 3}},
		Record: &lockRecord{
			State: "done", Holder: "web-3", Metadata: "r", Since: ago(now, before(5)), Left: "1m", Fence: 11, Size: 6, Done: true,
			Forget: "forget?fence=11&key=k",
		},
	}
	assert.Equal(t, want, h.viewLock("k", info, Act))

	info.Record.State, want.Record.State = inspect.RecordInProgress, inspect.RecordInProgress
	want.Record.Done, want.Record.Forget = false, ""
	assert.Equal(t, want, h.viewLock("k", info, Act))
	want.Holders[0].Revoke, want.Holders[0].Break = "", ""
	assert.Equal(t, want, h.viewLock("k", info, View))

	for state, holders := range map[string][]inspect.Holder{
		"free": nil, "held": {{Depth: 1}}, "kept": {{Depth: 0}}, "revoked": {{Depth: 1, Revoked: true}, {Depth: 1}},
	} {
		assert.Equal(t, state, h.viewLock("k", inspect.Info{Holders: holders}, View).State)
	}
	assert.Equal(t, "held", h.viewLock("k", inspect.Info{Holders: []inspect.Holder{{Depth: 0}, {Depth: 1}}}, View).State)
}

// An outage is a 503 that says why. The last list is shown, and the browser keeps the lock that it shows.
func TestPage_Outage(t *testing.T) {
	t.Parallel()
	h := newPage(t)
	fails := func(method, target, form string, says ...string) (body string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, 503, w.Code, target)
		for _, text := range append(says, `role="status">Nothing listens at that address: Redis is down, or the address is wrong.`) {
			assert.Contains(t, w.Body.String(), text, target)
		}
		return w.Body.String()
	}
	fails(http.MethodGet, "/", "", "wrong.</p>", "There is no list yet.")
	assert.NotContains(t, fails(http.MethodGet, "/lock?key=order:1", "", "wrong.</p>"), `id="live"`)
	for _, verb := range []string{"break", "forget"} {
		fails(http.MethodPost, "/"+verb, "key=order:1&fence=1&state=done")
	}
	h.list = newList(h.inspector, listTime)
	h.list.last = found{at: time.Now(), locks: []inspect.Info{{Key: "order:1", Holders: make([]inspect.Holder, 1)}}}
	fails(http.MethodGet, "/", "", "wrong. This is old.</p>", `<div id="live" data-refresh="2000" class="old">`, "<bdi>order:1</bdi>")
}

func TestList_FilterAndPut(t *testing.T) {
	t.Parallel()
	f := found{
		locks:  []inspect.Info{{Key: "a", Holders: make([]inspect.Holder, 1)}, {Key: "b"}},
		broken: []*inspect.FormatError{{Key: "c"}, {Key: "d"}},
	}
	ctx, leave := context.WithCancel(t.Context())
	locks, wrong := filter(ctx, f, func(key string) bool { return key == "a" || key == "d" })
	assert.Equal(t, f.locks[:1], locks)
	assert.Equal(t, f.broken[1:], wrong)
	leave()
	locks, wrong = filter(ctx, f, func(string) bool { return true })
	assert.Empty(t, locks)
	assert.Empty(t, wrong)

	l := newList(nil, listTime)
	l.last = f
	l.put(inspect.Info{Key: "b", Holders: make([]inspect.Holder, 2)})
	assert.Equal(t, []inspect.Info{f.locks[0], {Key: "b", Holders: make([]inspect.Holder, 2)}}, l.last.locks)
	l.put(inspect.Info{Key: "a"})
	assert.Equal(t, []inspect.Info{{Key: "b", Holders: make([]inspect.Holder, 2)}}, l.last.locks)
	l.put(inspect.Info{Key: "b"})
	assert.Empty(t, l.last.locks)
	assert.Equal(t, "b", f.locks[1].Key, "the list of a viewer does not change")
}

func TestMask_ForgetsWords(t *testing.T) {
	t.Parallel()
	h := &handler{mask: newMask()}
	first := h.word("1")
	for n := range maskKnows - 1 {
		h.word(fmt.Sprint("other ", n))
	}
	key, err := h.unmask(first)
	require.NoError(t, err)
	assert.Equal(t, "1", key)
	last := h.word("2")
	_, err = h.unmask(first)
	require.ErrorIs(t, err, errGone)
	key, err = h.unmask(last)
	require.NoError(t, err)
	assert.Equal(t, "2", key)
}

func TestPage_ErrorsAreInAnOperatorsWords(t *testing.T) {
	t.Parallel()
	reply := func(text string) error { return fmt.Errorf("x: %w", redistest.ReplyError(text)) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{reply("WRONGPASS invalid username-password pair or user is disabled."), "does not accept the user or the password"},
		{reply("NOPERM User u has no permissions to run the 'scan' command"), "lacks a right"},
		{reply("ERR in script: NOPERM no permissions"), "The Redis user of this process "},
		{reply("LOADING Redis is loading the dataset in memory"), "is loading its data"},
		{reply("READONLY You can't write against a read only replica."), "is a replica"},
		{reply("MASTERDOWN Link with MASTER is down"), "has lost its primary"},
		{reply("CLUSTERDOWN Hash slot not served"), "The Redis Cluster is down"},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), "no memory left"},
		{reply("MISCONF Redis is configured to save RDB snapshots"), "takes no writes"},
		{reply("BUSY Redis is busy running a script."), "busy with a script"},
		{reply("ERR max number of clients reached"), "as many clients as it accepts"},
		{reply("ERR unknown command with args beginning with 'alice'"), "refuses to answer (ERR)."},
		{context.DeadlineExceeded, "did not answer in time"},
		{context.Canceled, "ended before Redis answered"},
		{os.ErrDeadlineExceeded, "did not answer in time"},
		{io.EOF, "closed the connection"},
		{syscall.ECONNRESET, "closed the connection"},
		{syscall.EPIPE, "closed the connection"},
		{&net.DNSError{Err: "alice"}, "name of the Redis host is not known"},
		{tls.RecordHeaderError{Msg: "alice"}, "The TLS handshake with Redis failed"},
		{&tls.CertificateVerificationError{Err: errors.New("alice")}, "The TLS handshake"},
		{x509.UnknownAuthorityError{}, "The TLS handshake"},
		{errors.New("redis: connection pool timeout"), "connections of this process"},
		{errors.New("alice"), "Redis cannot be reached"},
	} {
		got := words(&guard.StoreError{Op: "inspect", Err: c.err})
		assert.Contains(t, got, c.want)
		assert.NotContains(t, got, "alice")
		assert.NotContains(t, got, "guard:")
	}
	for want, err := range map[string]error{
		"did not answer in time": context.DeadlineExceeded, "ended before Redis answered": context.Canceled, "as it is": errors.New("as it is"),
	} {
		assert.Contains(t, words(err), want, "without a StoreError")
	}
}
