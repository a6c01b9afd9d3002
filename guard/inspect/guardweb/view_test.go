package guardweb

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/inspect"
)

// The views of pages, without a Redis.

// newPage returns a handler of a Redis that does not exist.
func newPage(t *testing.T) *handler {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	i := inspect.New(rdb)
	return &handler{inspector: i, list: newList(i, listTime)}
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

func TestView_ControlCharactersAreSpelledOut(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `ü \u0009\u0000\u202e`, visible("ü \t\x00\u202e"))
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
		{Key: "free", Record: &inspect.Record{State: inspect.RecordDone}},
	}, broken: []*inspect.FormatError{{Key: "y", Reason: "no lock"}, {Key: "x", Reason: "a string"}}}
	v := h.viewList(search{sort: "key"}, f)
	assert.Equal(t, []row{
		{
			Key: "a", Link: "lock?key=a", Holder: "web-1", Metadata: "m", Others: 1, Since: ago(now, now.Add(-5*time.Second)),
			Left: "4s", Revoked: true, Limit: 2, Waiting: 3, Oldest: "4s", since: now.Add(-5 * time.Second),
		},
		{Key: "b", Link: "lock?key=b", Since: ago(now, now.Add(-longHeld-1)), Left: "no end", Long: true, since: now.Add(-longHeld - 1)},
		{Key: "c", Link: "lock?key=c", Since: moment{Text: "unknown"}, Left: "no end", Kept: true, since: now},
	}, v.Rows)
	assert.Equal(t, []broken{{"x", "lock?key=x", "a string"}, {"y", "lock?key=y", "no lock"}}, v.Broken)
	assert.Equal(t, clock(f.at), v.At)
	assert.Equal(t, map[string]string{"key": "./?match=&sort=key", "held": "./?match=&sort=held", "waiting": "./?match=&sort=waiting"}, v.By)
	assert.Equal(t, "key", v.Sort)
	assert.Empty(t, v.Status)
	assert.True(t, v.Known)
	assert.False(t, v.Masked)
	for pause, refresh := range map[time.Duration]int64{-1: 2000, 5 * time.Second: 5000, time.Minute: 10_000} {
		v := h.viewList(search{sort: "key"}, found{pause: pause})
		assert.Equal(t, refresh, v.Refresh)
		assert.False(t, v.Known)
	}
	h.mask = newMask()
	v = h.viewList(search{sort: "key"}, f)
	assert.True(t, v.Masked)
	assert.Equal(t, h.word("a") < h.word("b"), slices.IndexFunc(v.Rows, func(r row) bool { return r.Others == 1 }) <
		slices.IndexFunc(v.Rows, func(r row) bool { return r.Long }), "rows are in the order of the words")
	for _, r := range v.Rows {
		assert.Empty(t, r.Metadata)
	}
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
	assert.Equal(t, int64(2000), want.Refresh)

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

func TestView_ConfirmUsesTheClockOfRedis(t *testing.T) {
	t.Parallel()
	h, now := newPage(t), time.Unix(1_800_000_000, 0)
	info := inspect.Info{
		Now: now, Holders: []inspect.Holder{{Instance: "web-1", Since: now.Add(-3 * time.Second), Fence: 12}},
		Record: &inspect.Record{Instance: "web-2", Since: now.Add(-4 * time.Second), Fence: 11},
	}
	for verb, want := range map[string]lockHolder{
		"break": {Holder: "web-1", Fence: 12, Since: ago(now, now.Add(-3*time.Second))}, "forget": {Holder: "web-2", Fence: 11, Since: ago(now, now.Add(-4*time.Second))},
	} {
		got, err := h.viewConfirm(verb, "k", info, want.Fence)
		require.NoError(t, err)
		assert.Equal(t, want, lockHolder{Holder: got.Holder, Fence: got.Fence, Since: got.Since})
	}
	_, err := h.viewConfirm("revoke", "k", info, 11)
	require.ErrorIs(t, err, errGone)
}

func TestView_FailedTemplateIsAnError(t *testing.T) {
	t.Parallel()
	h, w := newPage(t), httptest.NewRecorder()
	h.write(w, 200, "error", "no page")
	assert.Equal(t, 500, w.Code)
	assert.Contains(t, w.Body.String(), "the page cannot be made")
	w = httptest.NewRecorder()
	h.write(w, 404, "error", page{})
	assert.Equal(t, 404, w.Code)
	assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
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
	_, wrong = filter(ctx, found{broken: f.broken}, func(string) bool { return true })
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
	h := &handler{}
	got, err := h.unmask("key-0123456789abcdef")
	require.NoError(t, err)
	assert.Equal(t, "key-0123456789abcdef", got, "nothing is masked")

	h.mask = newMask()
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
	assert.Equal(t, first, h.word("1"), "the next list makes it again")
}
