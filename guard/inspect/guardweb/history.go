package guardweb

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard"
)

const (
	buckets    = 60
	bucketTime = 5 * time.Second

	maxNames  = 100
	maxEvents = 2000
)

// History remembers what this process saw of its locks: of each name the last five minutes,
// and the last 2,000 ends of waits and holds. It is a guard.Observer, and shown by [Show]:
//
//	seen := guardweb.NewHistory()
//	g, err := guard.New(rdb, guard.Observe(seen))
//	page := guardweb.Handler(inspect.New(rdb), guardweb.Show(seen))
//
// It remembers 100 names. What comes after them is counted together, as "other".
type History struct {
	guard.NopObserver

	mu     sync.Mutex
	now    func() time.Time
	names  map[string]*series
	events []event // a ring
	next   int     // where the oldest is, once it is full
}

// NewHistory gives an empty History.
func NewHistory() *History {
	return &History{now: time.Now, names: make(map[string]*series)}
}

// series is what was seen of a name.
type series struct {
	waiting, holding int
	buckets          [buckets]bucket
}

// bucket is what ended within some seconds.
type bucket struct {
	number      int64 // which of all time it is
	holds, lost int
	wait, hold  time.Duration // the longest
}

// event is the end of a wait that got nothing, or of a hold.
type event struct {
	key, name, outcome string
	fence              uint64
	elapsed            time.Duration
	at                 time.Time
}

// series needs h.mu.
func (h *History) series(name string) *series {
	s := h.names[name]
	if s == nil && len(h.names) >= maxNames {
		name = "other"
		s = h.names[name]
	}
	if s == nil {
		s = new(series)
		h.names[name] = s
	}
	return s
}

// bucket is the one of this moment.
func (s *series) bucket(now time.Time) *bucket {
	number := now.UnixNano() / int64(bucketTime)
	b := &s.buckets[number%buckets]
	if b.number != number {
		*b = bucket{number: number}
	}
	return b
}

// remember needs h.mu.
func (h *History) remember(e event) {
	if len(h.events) < maxEvents {
		h.events = append(h.events, e)
		return
	}
	h.events[h.next] = e
	h.next = (h.next + 1) % maxEvents
}

// WaitStart counts a caller that waits.
func (h *History) WaitStart(ctx context.Context, l guard.Lock) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.series(l.Name).waiting++
	return ctx
}

// WaitEnd keeps how long a wait was.
func (h *History) WaitEnd(_ context.Context, l guard.Lock, r guard.WaitResult) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, s := h.now(), h.series(l.Name)
	s.waiting--
	b := s.bucket(now)
	b.wait = max(b.wait, r.Elapsed)
	if r.Outcome != guard.OutcomeAcquired {
		h.remember(event{l.Key, l.Name, r.Outcome, 0, r.Elapsed, now})
	}
}

// HoldStart counts a hold.
func (h *History) HoldStart(ctx context.Context, l guard.Lock, _ guard.Hold) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.series(l.Name).holding++
	return ctx
}

// HoldEnd keeps how long a hold was, and how it ended.
func (h *History) HoldEnd(_ context.Context, l guard.Lock, r guard.HoldResult) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, s := h.now(), h.series(l.Name)
	s.holding--
	b := s.bucket(now)
	b.holds++
	b.hold = max(b.hold, r.Elapsed)
	if r.Outcome != guard.OutcomeReleased {
		b.lost++
	}
	h.remember(event{l.Key, l.Name, r.Outcome, r.Fence, r.Elapsed, now})
}

// seen is what a graph is made of, the oldest bucket first.
type seen struct {
	name             string
	waiting, holding int
	buckets          [buckets]bucket
}

// byName gives what was seen, by name.
func (h *History) byName() []seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.now().UnixNano() / int64(bucketTime)
	all := make([]seen, 0, len(h.names))
	for name, s := range h.names {
		one := seen{name: name, waiting: s.waiting, holding: s.holding}
		for i := range buckets {
			number := last - buckets + 1 + int64(i)
			if b := s.buckets[number%buckets]; b.number == number {
				one.buckets[i] = b
			}
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b seen) int { return cmp.Compare(a.name, b.name) })
	return all
}

// of gives the last events of a key, the newest first.
func (h *History) of(key string, most int) (events []event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.events {
		e := h.events[(h.next+len(h.events)-1-i)%len(h.events)]
		if e.key == key {
			if events = append(events, e); len(events) == most {
				break
			}
		}
	}
	return events
}
