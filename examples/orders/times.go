package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard"
)

// lockTimes is a guard.Observer that remembers how long locks were waited for and held.
type lockTimes struct {
	guard.NopObserver

	mu    sync.Mutex // protects names and what it holds
	names map[string]*samples
}

type samples struct{ waits, holds []time.Duration }

func newLockTimes() *lockTimes { return &lockTimes{names: make(map[string]*samples)} }

// WaitEnd counts the waits that ended with the lock.
func (t *lockTimes) WaitEnd(_ context.Context, l guard.Lock, r guard.WaitResult) {
	if r.Depth == 1 {
		t.add(l.Name, func(s *samples) { s.waits = append(s.waits, r.Elapsed) })
	}
}

// HoldEnd counts every hold.
func (t *lockTimes) HoldEnd(_ context.Context, l guard.Lock, r guard.HoldResult) {
	if r.Depth == 1 {
		t.add(l.Name, func(s *samples) { s.holds = append(s.holds, r.Elapsed) })
	}
}

func (t *lockTimes) add(name string, to func(*samples)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.names[name]
	if s == nil {
		s = new(samples)
		t.names[name] = s
	}
	to(s)
}

// lockTime is what the report says about the locks of one name.
type lockTime struct {
	name  string
	holds int

	waitP50, waitP99, holdP50, holdP99 time.Duration
}

// summary is sorted by name.
func (t *lockTimes) summary() []lockTime {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []lockTime
	for name, s := range t.names {
		slices.Sort(s.waits)
		slices.Sort(s.holds)
		all = append(all, lockTime{
			name: name, holds: len(s.holds),
			waitP50: quantile(s.waits, 50), waitP99: quantile(s.waits, 99),
			holdP50: quantile(s.holds, 50), holdP99: quantile(s.holds, 99),
		})
	}
	slices.SortFunc(all, func(a, b lockTime) int { return strings.Compare(a.name, b.name) })
	return all
}

// quantile is the smallest value that at least percent of sorted do not exceed.
func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}
