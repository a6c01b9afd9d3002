package cohort

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
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

// Holder is a watchdog.Holder that says what it calls its lock.
type Holder interface {
	watchdog.Holder

	Label() retry.Label
}

// question asks the store whether a grant is held.
type question struct {
	begun clock.Instant
	done  chan struct{} // closed when there is a reply, or an error
	reply guardstore.RenewReply
	err   *retry.Error
}

func newShare(c *cohort, g *watchdog.Grant) *share {
	g.SetDepth(1)
	return &share{cohort: c, grant: g, holders: make(map[Holder]struct{})}
}

// hold is what a caller has of a result.
func (r result) hold(c *cohort) Hold { return Hold{r.grant, r.fence, c} }

// Shared says whether others may have the grant at the same time: it is not the caller's alone.
func (h Hold) Shared() bool { return h.cohort.room.callers > 1 }

// share is nil if the grant is the caller's alone.
func (h Hold) share() *share {
	if !h.Shared() {
		return nil
	}
	h.cohort.table.mu.Lock()
	defer h.cohort.table.mu.Unlock()
	return h.cohort.shares[h.Grant]
}

// deadline is until when the grant is certain.
func (h Hold) deadline() clock.Instant {
	if h.Shared() {
		return h.cohort.table.Watchdog.Deadline(h.Grant)
	}
	return h.Grant.Deadline()
}

// joinShare gives a reader the grant that another one has, while that is new: nobody who waits
// in the store since then waits for longer than the window and the longest read. It needs
// Table.mu.
func (c *cohort) joinShare(w *waiter) bool {
	s := c.joinable
	if s == nil || clock.Now().Sub(s.grant.Begun) >= c.window() || s.lost() != nil || s.grant.Denied() {
		return false
	}
	s.callers++
	w.results <- result{grant: s.grant, fence: s.grant.Fence, share: s, local: true, joined: true}
	return true
}

// lost is why the grant is over, if that is known.
func (s *share) lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return s.cause
	}
	return s.cohort.table.Watchdog.Check(s.grant)
}

// Watch begins to look after a hold, and to listen for who steps in on it; nobody waits for
// that.
func (t *Table) Watch(h Hold, who Holder, maxHold time.Duration, metadata string) {
	t.watch(h, who, maxHold, metadata)
	t.Listen()
	if t.WasRevoked(h.Grant) {
		t.Tasks.Go(func() { t.checkRevoked(h.Grant) }) // the message was faster than the grant
	}
}

func (t *Table) watch(h Hold, who Holder, maxHold time.Duration, metadata string) {
	s := h.share()
	if s == nil {
		t.Watchdog.Watch(h.Grant, who, maxHold, metadata)
		return
	}
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
		t.Watchdog.Watch(h.Grant, s, 0, metadata)
	}
}

// Drop ends the watch of a hold whose work has ended. It returns the reason if it was over
// already.
func (t *Table) Drop(h Hold, who Holder) (cause error) {
	s := h.share()
	if s == nil {
		return t.Watchdog.Drop(h.Grant)
	}
	s.mu.Lock()
	delete(s.holders, who)
	s.mu.Unlock()
	return s.lost()
}

// Holders are those who have a grant, where the watchdog knows its Holder as h.
func Holders(h watchdog.Holder) []watchdog.Holder {
	s, ok := h.(*share)
	if !ok {
		return []watchdog.Holder{h}
	}
	var all []watchdog.Holder
	for _, one := range s.all() {
		all = append(all, one)
	}
	return all
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
	delete(s.cohort.shares, s.grant)
	_ = t.Watchdog.Drop(s.grant)
	return true
}

// alone says whether a caller is the only one, while nobody may join.
func (s *share) alone() bool {
	t := s.cohort.table
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.callers == 1
}

// Leave takes a caller out of a hold that is lost, or under which nothing ran. It returns
// whether what may be left of the hold is to be released.
func (t *Table) Leave(h Hold) bool { return !h.Shared() || h.share().leave() }

// end ends a caller's part. Unless it was the last one, there is no call.
func (s *share) end(ctx context.Context, h Hold, label retry.Label, most, grace time.Duration) (call *ReleaseCall, reply guardstore.ReleaseReply, err error) {
	t := s.cohort.table
	known, unknown, asked := guardstore.RenewReply{Held: true}, error(nil), !s.alone()
	if asked {
		known, unknown = s.confirm(ctx, label, most, grace)
	}
	last := s.leave()
	if last && !asked {
		return t.giveBack(ctx, h, label, most, grace)
	}
	reply.Status = guardstore.ReleaseDone
	switch {
	case unknown != nil && last: // the release says what the store did not
		return t.giveBack(ctx, h, label, 0, grace)
	case unknown != nil:
		return nil, guardstore.ReleaseReply{}, unknown
	case !known.Held:
		if last {
			t.releaseBehind(ctx, h, label)
		}
		reply.Status = guardstore.ReleaseLost
		if known.Revoked {
			reply.Status = guardstore.ReleaseRevoked
		}
	case last:
		if call, _, err = t.giveBack(ctx, h, label, most, grace); err != nil {
			return call, guardstore.ReleaseReply{}, err
		}
	}
	return nil, reply, nil
}

// believed is for how long the store's word that it knows of a grant counts for those who leave
// it, if the window is not shorter.
const believed = 5 * time.Millisecond

// confirm says whether the store knows of the grant at this moment, or did a moment ago.
// It waits for that until ctx ends, and a grace then, but no longer than most.
func (s *share) confirm(ctx context.Context, label retry.Label, most, grace time.Duration) (guardstore.RenewReply, error) {
	at, age := clock.Now(), min(believed, s.cohort.window())
	if at.Sub(s.grant.Begun) < age {
		return guardstore.RenewReply{Held: true}, nil
	}
	s.mu.Lock()
	q := s.latest
	if q == nil || at.Sub(q.begun) >= age {
		q = &question{begun: at, done: make(chan struct{})}
		s.latest = q
		ctx := context.WithoutCancel(ctx)
		if !s.cohort.table.Tasks.Go(func() { s.ask(ctx, q, label) }) {
			q.err = &retry.Error{Op: checkOp, Key: label.Key, Err: ErrClosed}
			close(q.done)
		}
	}
	s.mu.Unlock()
	timer := time.NewTimer(min(most, s.cohort.table.Calls.Timeout))
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C:
	case <-ctx.Done():
		timer.Reset(grace)
		select {
		case <-q.done:
		case <-timer.C:
		}
	}
	select {
	case <-q.done:
		if q.err != nil {
			return guardstore.RenewReply{}, q.err
		}
		return q.reply, nil
	default:
		return guardstore.RenewReply{}, &retry.Error{Op: checkOp, Key: label.Key, Err: retry.ErrNoAnswer}
	}
}

// ask asks the store, moving no expiry, and ends the grant if it is over.
func (s *share) ask(ctx context.Context, q *question, label retry.Label) {
	defer close(q.done)
	t := s.cohort.table
	call := t.NewCheck(label, s.grant)
	reply, err := call.Run(ctx, t.Abort, call.Begun.Add(t.Calls.Timeout))
	if err != nil {
		q.err = call.Failure(err)
		return
	}
	if q.reply = reply; !reply.Held {
		t.Watchdog.End(s.grant, watchdog.NotHeld(reply))
	}
}
