package guardweb

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// What a page shows of what is known, without a Redis.

// newPage is a handler of a Redis that is not there.
func newPage(t *testing.T) *handler {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	i := inspect.New(rdb)
	return &handler{inspector: i, list: newList(i, listTime), secret: newSecret()}
}

func TestView_Durations(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	assert.Equal(t, when{"2027-01-15T07:59:57Z", "3s"}, since(now, now.Add(-3*time.Second)))
	assert.Equal(t, when{"2027-01-15T08:00:01Z", "0s"}, since(now, now.Add(time.Second)), "clocks differ")
	assert.Equal(t, when{"", "unknown"}, since(now, time.Time{}))
	for d, text := range map[time.Duration]string{
		999*time.Millisecond + 400*time.Microsecond: "999ms", time.Second: "1s", 1230 * time.Millisecond: "1.2s",
		9960 * time.Millisecond: "10s", 10400 * time.Millisecond: "10s", 90 * time.Minute: "1h30m0s",
	} {
		assert.Equal(t, text, short(d))
	}
	assert.Equal(t, bar{1, 1, "no end"}, barOf(0))
	var of []int64
	for _, left := range []time.Duration{
		1, time.Second, 1001 * time.Millisecond, 3 * time.Second, 7 * time.Second, 11 * time.Second, 16 * time.Second, 31 * time.Second, 61 * time.Second,
		3 * time.Minute, 6 * time.Minute, 11 * time.Minute, 31 * time.Minute, 2 * time.Hour, 7 * time.Hour, 25 * time.Hour,
	} {
		of = append(of, barOf(left).Of/1000)
	}
	assert.Equal(t, []int64{1, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 21_600, 86_400, 90_000}, of)
}

func TestView_ControlCharactersAreSpelledOut(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `ü \u0009\u0000\u202e`, visible("ü \t\x00\u202e"))
}

func TestView_RowsOfTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, now := newPage(t), time.Now()
		h.leases = func() []own { return []own{{Key: "a", Name: "pay", Waiting: 2}, {Key: "a", Name: "pay", Waiting: 1}} }
		f := found{at: now.Add(-2 * time.Second), locks: []inspect.Info{
			{
				Key: "a", Now: now, Queued: 3, Waiting: []inspect.Waiter{{Since: now.Add(-4 * time.Second)}},
				Holders: []inspect.Holder{{
					Instance: "web-1", Metadata: "m", Since: now.Add(-3 * time.Second), Left: 4 * time.Second, Fence: 7, Depth: 1, Limit: 2, Revoked: true,
				}},
			},
			{Key: "b", Now: now, Holders: []inspect.Holder{{Since: now, Fence: 8}}},
			{Key: "free", Record: &inspect.Record{State: inspect.RecordDone}},
		}, broken: []*inspect.FormatError{{Key: "y", Reason: "no lock"}, {Key: "x", Reason: "a string"}}}
		v := h.viewList(search{by: columns[0]}, f)
		assert.Equal(t, []row{
			{
				Key: "a", Link: "lock?key=a", Name: "pay", Holder: "web-1", Metadata: "m", Since: since(now.Add(2*time.Second), now.Add(-3*time.Second)),
				Left: bar{4000, 5000, "4s"}, Revoked: true, Limit: 2, Depth: 1, Waiting: 3, Oldest: "6s", Here: 2, Fence: 7,
				held: 5 * time.Second, left: 4 * time.Second,
			},
			{
				Key: "b", Link: "lock?key=b", Since: since(now.Add(2*time.Second), now), Left: bar{1, 1, "no end"}, Fence: 8,
				held: 2 * time.Second, left: math.MaxInt64,
			},
		}, v.Rows)
		assert.Equal(t, []broken{{"x", "lock?key=x", "a string"}, {"y", "lock?key=y", "no lock"}}, v.Broken)
		assert.Equal(t, []broken{{"free", "lock?key=free", "done"}}, v.Records)
		assert.Equal(t, clock(f.at), v.At)
		assert.Equal(t, clock(now), v.Now)
		assert.True(t, v.HasOwn)
		assert.Equal(t, own{Key: "a", Link: "lock?key=a", Name: "pay", Waiting: 2}, v.Own[0])
		assert.Empty(t, v.Sort)
		assert.Empty(t, v.Status)
		assert.False(t, v.Masked)
		assert.Equal(t, "-key", h.viewList(search{by: columns[0], down: true}, f).Sort)
		assert.Equal(t, "name", h.viewList(search{by: columns[1]}, f).Sort)
		for pause, refresh := range map[time.Duration]int64{-1: 2000, 5 * time.Second: 5000, time.Minute: 10_000} {
			v := h.viewList(search{by: columns[0]}, found{pause: pause})
			assert.Equal(t, refresh, v.Refresh)
			assert.Empty(t, v.At)
		}
		h.mask = newMask()
		v = h.viewList(search{by: columns[0]}, f)
		assert.True(t, v.Masked)
		assert.Empty(t, v.Rows[0].Metadata)
	})
}

func TestView_ListOfAThousandRows(t *testing.T) {
	t.Parallel()
	h, f := newPage(t), found{}
	for n := range maxRows + 1 {
		f.locks = append(f.locks, inspect.Info{Key: fmt.Sprintf("%04d", n), Holders: make([]inspect.Holder, 1)})
	}
	v := h.viewList(search{by: columns[0], down: true}, f)
	assert.Len(t, v.Rows, maxRows)
	assert.False(t, v.HasOwn)
	assert.Equal(t, "1000", v.Rows[0].Key)
	assert.Equal(t, []string{"1000 of 1001 are shown. Look for fewer keys."}, v.Limits)
	assert.Empty(t, f.limits(5, 5))
	assert.Equal(t, []string{
		"More than 10000 locks are held, and this list knows no others. Look for one whole key.",
		"Redis has more keys than can be looked through in 30s: this list is not whole. Look for one whole key.",
	}, found{more: true, cut: true}.limits(5, 5))
}

func TestView_Lock(t *testing.T) {
	t.Parallel()
	h, now := newPage(t), time.Unix(1_800_000_000, 0)
	ago := func(n int) time.Time { return now.Add(-time.Duration(n) * time.Second) }
	h.leases = func() []own { return []own{{Key: "k", Waiting: 2}, {Key: "k", Waiting: 1}, {Key: "other", Waiting: 9}} }
	h.history = NewHistory()
	for n := range 51 {
		holds(t, h.history, "k", "pay", guard.HoldResult{Outcome: guard.OutcomeReleased, Elapsed: time.Second, Hold: guard.Hold{Fence: uint64(n)}})
	}
	info := inspect.Info{
		Key: "k", Now: now, Queued: 5, LastFence: 9,
		Holders: []inspect.Holder{{Instance: "web-1", Metadata: "m", Since: ago(3), Left: 4 * time.Second, Fence: 12, Depth: 1, Limit: 2, Revoked: true}},
		Waiting: []inspect.Waiter{{Instance: "web-2", Since: ago(2), Asked: ago(1), Limit: 3}},
		Record:  &inspect.Record{State: inspect.RecordDone, Instance: "web-3", Metadata: "r", Since: ago(5), Left: time.Minute, Fence: 11, Size: 6},
	}
	v := h.viewLock("k", info, Act, "was done")
	assert.Len(t, v.Events, 50)
	assert.Equal(t, lockEvent{v.Events[0].At, "released", "pay", "1s", 50}, v.Events[0])
	_, err := time.Parse(time.TimeOnly, v.Events[0].At)
	require.NoError(t, err)
	v.Events = nil
	want := viewLock{
		page: h.page("k", 2*time.Second), Key: "k", Notice: "was done", Mine: true, Here: 2, Queued: 5, More: 4, Last: 9, Now: "08:00:00 UTC", Seen: true,
		Holders: []lockHolder{{
			Holder: "web-1", Metadata: "m", Since: since(now, ago(3)), Left: bar{4000, 5000, "4s"}, Fence: 12, Depth: 1, Limit: 2, Revoked: true,
			Revoke: "revoke?fence=12&key=k", Break: "break?fence=12&key=k",
		}},
		Waiting: []lockWaiter{{1, "web-2", since(now, ago(2)), since(now, ago(1)), 3}},
		Record: &lockRecord{
			State: "done", Holder: "web-3", Metadata: "r", Since: since(now, ago(5)), Left: bar{60_000, 60_000, "1m0s"}, Fence: 11, Size: 6, Done: true,
			Forget: "forget?fence=11&key=k",
		},
	}
	assert.Equal(t, want, v)
	assert.Equal(t, int64(2000), v.Refresh)

	info.Record.State, want.Record.State = inspect.RecordInProgress, inspect.RecordInProgress
	want.Record.Done, want.Record.Forget, want.Notice, want.Seen, want.Mine, want.Here = false, "", "", false, false, 0
	h.history, h.leases = nil, nil
	assert.Equal(t, want, h.viewLock("k", info, Act, ""))
	want.Holders[0].Revoke, want.Holders[0].Break = "", ""
	assert.Equal(t, want, h.viewLock("k", info, View, ""))

	confirm := h.viewConfirm("k", "break", info.Holders[0])
	assert.NotEmpty(t, confirm.Since.Ago)
	confirm.Since = when{}
	assert.Equal(t, viewConfirm{page: h.page("break k", 0), Verb: "break", Key: "k", Link: "lock?key=k", Holder: "web-1", Fence: 12, Break: true}, confirm)
	assert.False(t, h.viewConfirm("k", "revoke", info.Holders[0]).Break)
}

func TestView_Graphs(t *testing.T) {
	t.Parallel()
	s := seen{name: "pay", waiting: 1, holding: 2}
	s.buckets[3] = bucket{holds: 100, lost: 2, hold: 2 * time.Second, wait: 1500 * time.Millisecond}
	s.buckets[59] = bucket{holds: 1, hold: 500 * time.Millisecond}
	assert.Equal(t, []graph{{
		Name: "pay", Holding: 2, Waiting: 1, Lost: 2,
		Holds:     []stroke{{"6", "0.0", "24.0", true}, {"118", "23.0", "1.0", false}}, // what is small is seen
		Hold:      []stroke{{"6", "0.0", "24.0", false}, {"118", "18.0", "6.0", false}},
		Wait:      []stroke{{"6", "0.0", "24.0", false}},
		HoldsText: "101 in 5 minutes", HoldText: "2s at most", WaitText: "1.5s at most",
	}}, graphs([]seen{s}))
}

func TestView_HeadsLeadToTheirOrder(t *testing.T) {
	t.Parallel()
	heads := search{match: "a", by: columns[0]}.heads()
	assert.Len(t, heads, len(columns))
	assert.Equal(t, head{"Key", "./?match=a&sort=-key", "ascending"}, heads[0])
	assert.Equal(t, head{"Name", "./?match=a&sort=name", ""}, heads[1])
	assert.Equal(t, head{"For", "./?match=a&sort=-for", ""}, heads[3])
	heads = search{by: columns[3], down: true}.heads()
	assert.Equal(t, head{"For", "./?match=&sort=for", "descending"}, heads[3])
	rows := []row{{Key: "a", Name: "z"}, {Key: "c", Name: "y"}, {Key: "b", Name: "y", Fence: 2}, {Key: "b", Name: "y", Fence: 1}}
	search{by: columns[1]}.sort(rows)
	assert.Equal(t, []row{{Key: "b", Name: "y", Fence: 1}, {Key: "b", Name: "y", Fence: 2}, {Key: "c", Name: "y"}, {Key: "a", Name: "z"}}, rows)
}

func TestView_ATemplateThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	h, w := newPage(t), httptest.NewRecorder()
	h.write(w, 200, "error", "no page")
	assert.Equal(t, 500, w.Code)
	assert.Contains(t, w.Body.String(), "the page cannot be made")
	w = httptest.NewRecorder()
	h.write(w, 404, "error", viewError{})
	assert.Equal(t, 404, w.Code)
	assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
}

func TestView_AReceiptIsShownForAMinute(t *testing.T) {
	t.Parallel()
	h, at := newPage(t), time.Unix(1_800_000_000, 0)
	receipt := h.receipt("break", "k", 7, at)
	assert.NotEmpty(t, h.notice(receipt, "k", at.Add(time.Minute)))
	assert.Empty(t, h.notice(receipt, "k", at.Add(time.Minute+1)))
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
	assert.Equal(t, "b", f.locks[1].Key, "what a viewer got stays as it is")
}

func TestView_AnOutageSaysSinceWhen(t *testing.T) {
	t.Parallel()
	at, since, loading := time.Unix(1_800_000_000, 0), time.Unix(1_800_000_060, 0), &guard.StoreError{Err: redistest.ReplyError("LOADING")}
	for want, f := range map[string]found{
		"":             {at: at, since: since},
		words(loading): {err: loading, since: since},
		"This is old: it is from 08:00:00 UTC. " + words(loading):                            {err: loading, at: at, since: since},
		"Redis has not answered yet. " + words(context.Canceled):                             {err: context.Canceled},
		"Redis has not answered since 08:01:00 UTC; this is old. " + words(context.Canceled): {err: context.Canceled, at: at, since: since},
	} {
		assert.Equal(t, want, f.outage())
	}
	assert.Contains(t, words(loading), "loading its data")
}

// Where Redis does not answer, what was known of that one key is shown.
func TestFind_OneKeyWithoutARedis(t *testing.T) {
	t.Parallel()
	h := newPage(t)
	h.list.last = found{at: time.Now(), locks: []inspect.Info{{Key: "a"}, {Key: "b"}}, broken: []*inspect.FormatError{{Key: "c"}}}
	f := h.find(t.Context(), search{match: "a"})
	require.ErrorIs(t, f.err, guard.ErrStore)
	assert.Equal(t, []inspect.Info{{Key: "a"}}, f.locks)
	assert.Empty(t, f.broken)
}

func TestMask_ForgetsWordsAndFindsThemInTheList(t *testing.T) {
	s := &scripted{took: seconds(1), locks: 3}
	listed(t, s, func(t *testing.T, l *list) {
		h := &handler{list: l}
		got, err := h.unmask(t.Context(), "key-0123456789abcdef")
		require.NoError(t, err)
		assert.Equal(t, "key-0123456789abcdef", got, "nothing is masked")

		h.mask = newMask()
		first := h.word("1")
		for n := range maskKnows - 1 {
			h.word(fmt.Sprint("other ", n))
		}
		_, known := h.mask.key(first)
		assert.True(t, known)
		last := h.word("2")
		_, known = h.mask.key(first)
		assert.False(t, known)
		_, known = h.mask.key(last)
		assert.True(t, known)
		key, err := h.unmask(t.Context(), first)
		require.NoError(t, err)
		assert.Equal(t, "1", key)
		_, err = h.unmask(t.Context(), "key-0123456789abcdef")
		require.ErrorIs(t, err, errGone)
		s.err = errCut
		time.Sleep(time.Hour)
		_, err = h.unmask(t.Context(), "key-0123456789abcdef")
		require.ErrorIs(t, err, errCut)
	})
}
