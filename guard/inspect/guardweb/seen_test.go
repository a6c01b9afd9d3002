package guardweb

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
)

// What a History keeps, without a page.

func waits(t *testing.T, h *History, key, name string, r guard.WaitResult) {
	t.Helper()
	l := guard.Lock{Key: key, Name: name}
	h.WaitEnd(h.WaitStart(t.Context(), l), l, r)
}

func holds(t *testing.T, h *History, key, name string, r guard.HoldResult) {
	t.Helper()
	l := guard.Lock{Key: key, Name: name}
	h.HoldEnd(h.HoldStart(t.Context(), l, r.Hold), l, r)
}

func TestHistory_KeepsTheLongestOfFiveSeconds(t *testing.T) {
	t.Parallel()
	h := NewHistory()
	later := StopClock(h)
	for _, name := range []string{"d", "b", "a", "c"} {
		h.WaitStart(t.Context(), guard.Lock{Name: name})
		h.HoldStart(t.Context(), guard.Lock{Name: name}, guard.Hold{})
	}
	for _, took := range []time.Duration{1, 3, 2} {
		waits(t, h, "k", "a", guard.WaitResult{Outcome: guard.OutcomeAcquired, Elapsed: took})
		holds(t, h, "k", "a", guard.HoldResult{Outcome: guard.OutcomeReleased, Elapsed: 2 * took})
	}
	later(10 * time.Second)
	waits(t, h, "k", "a", guard.WaitResult{Outcome: guard.OutcomeBusy, Elapsed: 5})
	holds(t, h, "k", "a", guard.HoldResult{Outcome: guard.OutcomeLost, Elapsed: 4})
	all := h.byName()
	var names []string
	for _, one := range all {
		names = append(names, one.name)
		assert.Equal(t, 1, one.waiting)
		assert.Equal(t, 1, one.holding)
	}
	assert.Equal(t, []string{"a", "b", "c", "d"}, names)
	want := make([]bucket, buckets)
	want[57], want[59] = bucket{holds: 3, wait: 3, hold: 6}, bucket{holds: 1, lost: 1, wait: 5, hold: 4}
	got := slices.Clone(all[0].buckets[:])
	for i := range got {
		got[i].number = 0
	}
	assert.Equal(t, want, got)

	var outcomes []string
	for _, e := range h.of("k", 10) { // a wait that got the lock is no event
		outcomes = append(outcomes, fmt.Sprint(e.outcome, " ", int64(e.elapsed)))
	}
	assert.Equal(t, []string{"lost 4", "busy 5", "released 4", "released 6", "released 2"}, outcomes)
}

func TestHistory_GivesTheLatestOfAKey(t *testing.T) {
	t.Parallel()
	h := NewHistory()
	for i := range maxEvents + 3 { // the ring begins anew
		holds(t, h, []string{"k", "other"}[i%2], "name", guard.HoldResult{Hold: guard.Hold{Fence: uint64(i)}})
		if i < 3 {
			assert.Equal(t, uint64(i), h.of([]string{"k", "other"}[i%2], 1)[0].fence)
		}
	}
	var fences []uint64
	for _, e := range h.of("k", 3) {
		fences = append(fences, e.fence)
	}
	assert.Equal(t, []uint64{maxEvents + 2, maxEvents, maxEvents - 2}, fences)
	assert.Len(t, h.of("k", maxEvents), maxEvents/2)
	assert.Len(t, h.of("other", maxEvents), maxEvents/2)
}

func TestHistory_CountsWhatComesAfterAHundredNamesTogether(t *testing.T) {
	t.Parallel()
	h := NewHistory()
	for i := range maxNames + 3 {
		h.WaitStart(t.Context(), guard.Lock{Name: fmt.Sprintf("name%03d", i)})
	}
	h.WaitStart(t.Context(), guard.Lock{Name: "name000"})
	all := h.byName()
	assert.Len(t, all, maxNames+1)
	assert.Equal(t, 2, all[0].waiting)
	assert.Equal(t, "other", all[maxNames].name)
	assert.Equal(t, 3, all[maxNames].waiting)
}

func TestLeases_ShowsSinceWhenAndForHowLong(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := guard.LeaseInfo{Key: "k", Name: "name", Fence: 7, Since: now.Add(-3 * time.Second), Deadline: now.Add(4 * time.Second), Depth: 2, Waiting: 5}
	late := l
	late.Deadline = now.Add(-time.Second)
	want := own{
		Key: "k", Name: "name", Fence: 7, Since: when{l.Since.UTC().Format(time.RFC3339Nano), "3s"},
		Left: bar{4000, 5000, "4s"}, Depth: 2, Waiting: 5,
	}
	over := want
	over.Left = bar{1, 1000, "1ms"}
	assert.Equal(t, []own{want, over}, ownOf([]guard.LeaseInfo{l, late}, now))
}
