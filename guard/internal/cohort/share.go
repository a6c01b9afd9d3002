package cohort

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// share is a grant that several readers of this process have at the same time. It is the
// watchdog's Holder for all of them: one renewal keeps it, and its loss is told to each. The
// last one out gives it back.
//
// Who leaves before the last one sends no release, which would say whether the grant was held
// to the end. So it asks, unless the store said so a moment ago: those who leave within 5 ms of
// each other ask once.
type share struct {
	cohort *cohort
	grant  *watchdog.Grant

	callers int // who has the grant, or was given it; guarded by Table.mu

	mu      sync.Mutex // after Table.mu, before watchdog.mu
	watched bool
	holders map[Holder]struct{}
	cause   error    // why the grant is over
	cut     []Holder // that are to be told so
	latest  *question
}

// question asks the store whether a grant is held.
type question struct {
	begun clock.Instant
	done  chan struct{} // closed when there is an answer
	err   error         // nil = it is held; else why not, or an *Error
}

func newShare(c *cohort, g *watchdog.Grant) *share {
	g.SetDepth(1)
	return &share{cohort: c, grant: g, holders: make(map[Holder]struct{})}
}

// joinShare gives a reader the grant that another one has, while that is new: nobody who waits
// in the store since then waits for longer than the window and the longest read. It needs
// Table.mu.
func (c *cohort) joinShare(w *waiter) bool {
	s := c.joinable
	if s == nil || clock.Now().Sub(s.grant.Begun) >= c.window() || s.lost() != nil || s.grant.Denied() {
		return false
	}
	got := c.resultOf(s.grant, s.grant.Fence)
	got.local, got.joined = true, true
	s.callers++
	w.results <- got
	return true
}

// lost is why the grant is over, if that is known.
func (s *share) lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return s.cause
	}
	return s.cohort.table.watchdog.Check(s.grant)
}

func (s *share) watch(who Holder, metadata string) {
	s.mu.Lock()
	first, cause := !s.watched, s.cause
	s.watched = true
	s.holders[who] = struct{}{}
	s.mu.Unlock()
	switch {
	case cause != nil:
		if who.Cut(cause) {
			who.TellLoss()
		}
	case first:
		s.cohort.table.watchdog.Watch(s.grant, s, 0, metadata)
	}
}

func (s *share) unwatch(who Holder) (cause error) {
	s.mu.Lock()
	delete(s.holders, who)
	s.mu.Unlock()
	return s.lost()
}

// holdersOf are those who have a grant, where the watchdog knows its Holder as h.
func holdersOf(h watchdog.Holder) []Holder {
	switch h := h.(type) {
	case *share:
		return h.all()
	case Holder:
		return []Holder{h}
	}
	return nil
}

func (s *share) all() []Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.holders))
}

// Cut implements watchdog.Holder.
func (s *share) Cut(cause error) (first bool) {
	s.mu.Lock()
	s.cause = cause
	s.mu.Unlock()
	var cut []Holder
	for _, one := range s.all() {
		if one.Cut(cause) {
			cut = append(cut, one)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = append(s.cut, cut...)
	return len(cut) > 0
}

// TellLoss implements watchdog.Holder.
func (s *share) TellLoss() {
	s.mu.Lock()
	cut := s.cut
	s.cut = nil
	s.mu.Unlock()
	for _, one := range cut {
		one.TellLoss()
	}
}

// Renewed implements watchdog.Holder.
func (s *share) Renewed(err error) {
	for _, one := range s.all() {
		one.Renewed(err)
	}
}

// leave takes a caller out, and says whether it was the last one. Then nobody joins any more.
func (s *share) leave() (last bool) {
	t := s.cohort.table
	t.mu.Lock()
	defer t.mu.Unlock()
	s.callers--
	if s.callers > 0 {
		return false
	}
	if s.cohort.joinable == s {
		s.cohort.joinable = nil
	}
	_ = t.watchdog.Drop(s.grant)
	return true
}

// asks says whether a caller that leaves has to ask whether it held the grant: its release will
// not say so. Of a grant that was given up, the loss is known.
func (s *share) asks(h *Hold) bool {
	t := s.cohort.table
	t.mu.Lock()
	defer t.mu.Unlock()
	return h.used && s.callers > 1 && slices.Contains(s.cohort.grants, s.grant)
}

// release is Hold.Release for a caller that shares its grant.
func (s *share) release(ctx context.Context, h *Hold, p Patience) (err error) {
	if s.asks(h) {
		err = s.confirm(ctx, h.Label, p)
	}
	if !s.leave() {
		return err
	}
	h.alone = true
	if err == nil {
		_, err = h.Release(ctx, p)
		return err
	}
	s.cohort.table.async(ctx, func(ctx context.Context) { _, _ = h.Release(ctx, Patience{Most: clock.Forever}) })
	if unknown, ok := err.(*Error); ok { //nolint:errorlint // it comes bare
		return &Error{Op: releaseOp, Key: unknown.Key, Err: unknown.Err} // what the store did not say
	}
	return err
}

// believed is for how long the store's word that it knows of a grant counts for those who leave
// it, if the window is not shorter.
const believed = 5 * time.Millisecond

// confirm says whether the store knows of the grant at this moment, or did a moment ago. The error
// is the reason why not, or an *Error.
func (s *share) confirm(ctx context.Context, label Label, p Patience) error {
	at, age := clock.Now(), min(believed, s.cohort.window())
	if at.Sub(s.grant.Begun) < age {
		return nil
	}
	s.mu.Lock()
	q := s.latest
	if q == nil || at.Sub(q.begun) >= age {
		q = &question{begun: at, done: make(chan struct{})}
		s.latest = q
		ctx := context.WithoutCancel(ctx)
		if !s.cohort.table.Tasks.Go(func() { s.ask(ctx, q, label) }) {
			q.err = &Error{Op: checkOp, Key: label.Key, Err: ErrClosed}
			close(q.done)
		}
	}
	s.mu.Unlock()
	timer := time.NewTimer(min(p.Most, s.cohort.table.Calls.Timeout))
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C:
	case <-ctx.Done():
		timer.Reset(p.Grace)
		select {
		case <-q.done:
		case <-timer.C:
		}
	}
	if !task.IsClosed(q.done) {
		return &Error{Op: checkOp, Key: label.Key, Err: retry.ErrNoAnswer}
	}
	return q.err
}

// ask asks the store, and ends the grant if it is over.
func (s *share) ask(ctx context.Context, q *question, label Label) {
	defer close(q.done)
	t := s.cohort.table
	reply, err := t.check(ctx, checkOp, label, s.grant, Patience{Most: t.Calls.Timeout})
	if q.err = err; err == nil && !reply.Held {
		q.err = watchdog.NotHeld(reply)
		t.watchdog.End(s.grant, q.err)
	}
}
