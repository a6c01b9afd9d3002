package limits

import "github.com/redlatch/redlatch/guard/internal/model/explore"

type (
	step   = explore.Step[rules, state, owner]
	search = explore.Search[rules, state, owner]
)

func can(name string, calm int, do func(r *rules, s *state, o owner) bool) step {
	return step{Name: name, Calm: calm, Do: do}
}

var steps = []step{
	can("wants to be alone", 0, comes(exclusive, false)),
	can("wants to be one of two", 0, comes(two, false)),
	can("wants to read", 0, comes(shared, false)),
	can("wants to be alone, and does not wait", 0, comes(exclusive, true)),
	can("wants to be one of two, and does not wait", 0, comes(two, true)),
	can("wants to read, and does not wait", 0, comes(shared, true)),
	can("gives up", 0, (*rules).giveUp),
	can("asks for what it was granted", 4, (*rules).askForGrant),
	can("asks", 6, (*rules).ask),
	can("asks, without an answer", 0, (*rules).askInVain),
	can("is told that it is inside, and works", 3, (*rules).begin),
	can("ends its work", 2, (*rules).end),
	can("passes its deadline", 0, (*rules).lose),
	can("learns from a renewal that it is gone", 0, (*rules).findGone),
	can("renews a hold that was lost", explore.OnlyIfBroken, (*rules).renewLost),
	can("renews, without an answer", 0, (*rules).renewInVain),
	can("ends its work after the loss", 1, (*rules).endLost),
	can("releases", 1, (*rules).giveBack),
	can("releases, without an answer", 0, (*rules).giveBackInVain),
	can("releases no more", 0, (*rules).giveBackNoMore),
	can("has its time over", 5, (*rules).lapse),
	can("sees the lock expire", 5, (*rules).expire),
	can("is passed over", 7, (*rules).passOver),
	can("is passed over, though somebody wants it", 0, (*rules).passOverWanted),
	can("asks late, without a place", 0, (*rules).unplacedArrives),
	can("asks late, with its place", 0, (*rules).placedArrives),
	can("releases late", 0, (*rules).releaseArrives),
	can("renews late", 0, (*rules).renewArrives),
	can("has nothing on its way any more", 1, (*rules).lateLost),
	can("crashes", 0, (*rules).crash),
	can("loses its subscription", 0, (*rules).unsubscribe),
	can("sees Redis lose its data", 0, (*rules).flush),
	can("sees Redis's clock step back", 0, (*rules).stepBack),
	can("sees Redis's clock catch up", 0, (*rules).catchUp),
}

// comes is a new caller.
func comes(m mode, direct bool) func(r *rules, s *state, o owner) bool {
	return func(_ *rules, s *state, o owner) bool {
		c, b := &s.claims[o], &s.budget
		if b.calls == 0 || c.phase != free || b.kinds&(1<<m) == 0 || direct && b.kinds&hasty == 0 {
			return false
		}
		for i := range o { // free slots are the same
			if s.claims[i].phase == free {
				return false
			}
		}
		b.calls--
		*c = claim{mode: m, phase: waiting, direct: direct}
		return true
	}
}

func (r *rules) giveUp(s *state, o owner) bool {
	return s.claims[o].phase == waiting && s.claims[o].desert()
}

// desert gives up a claim that nobody wants any more.
func (c *claim) desert() bool {
	if c.known > 0 || c.inDoubt || c.reply != none {
		c.phase, c.reply, c.fence = releasing, none, 0
	} else {
		c.phase = over // it was not sent yet, or left nothing
	}
	return true
}

func (r *rules) askForGrant(s *state, o owner) bool {
	return s.claims[o].holds && !s.claims[o].lapsed && r.ask(s, o)
}

// ask is a round trip. An acquire may be on its way for any time, but as it may as well
// be sent then, that is no state. The same goes for answers that say "busy".
func (r *rules) ask(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != waiting || c.reply != none {
		return false
	}
	if (&script{rules: r, state: s}).isOver(c) {
		s.breaks(outcast)
	}
	before := c.known
	r.acquire(s, o, !c.direct, c.known)
	if c.holds {
		c.reply, c.got = held, c.noted
		return true
	}
	if first := s.first(); (first == o || c.direct && first == nobody) && s.tolerable(c) {
		s.breaks(vain)
	}
	if c.known = c.place; c.direct {
		c.desert()
	} else if c.queued && c.known > before && before > 0 {
		s.breaks(order)
	}
	return true
}

func (r *rules) askInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if s.budget.silences == 0 || !c.sendAcquire() {
		return false
	}
	s.budget.silences--
	c.reply, c.inDoubt = none, true
	if c.direct {
		c.desert()
	}
	return true
}

func (r *rules) begin(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != waiting || c.reply == none || c.reply == heldLate && !r.trustsLateAnswers {
		return false
	}
	s.work(o, c.got)
	return true
}

func (r *rules) end(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != holding {
		return false
	}
	c.phase = releasing
	return true
}

func (r *rules) lose(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != holding {
		return false
	}
	c.phase = lost
	return true
}

// findGone is a renewal that is refused. One that is not makes no difference.
func (r *rules) findGone(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != holding || r.renew(s, o) {
		return false
	}
	c.phase = gone
	return true
}

func (r *rules) renewLost(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != holding || !c.bereft || !r.renew(s, o) {
		return false
	}
	s.breaks(silent)
	return true
}

func (r *rules) renewInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != holding || c.lateRenew || s.budget.silences == 0 {
		return false
	}
	s.budget.silences--
	c.lateRenew = true
	return true
}

func (r *rules) endLost(s *state, o owner) bool {
	c := &s.claims[o]
	switch {
	case c.phase == lost, c.phase == gone && c.inDoubt:
		c.phase = releasing
	case c.phase == gone:
		c.phase = over
	default:
		return false
	}
	return true
}

func (r *rules) giveBack(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != releasing {
		return false
	}
	r.release(s, o)
	c.phase, c.again = over, false
	return true
}

func (r *rules) giveBackInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != releasing || s.budget.silences == 0 {
		return false
	}
	s.budget.silences--
	c.lateRelease, c.again = true, true
	return true
}

func (r *rules) giveBackNoMore(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != releasing || !c.again {
		return false
	}
	c.phase = over
	return true
}

// lapse is the end of a holder's own time, or of the ack window. Whoever trusts it has passed
// its deadline before.
func (r *rules) lapse(s *state, o owner) bool {
	c := &s.claims[o]
	if !c.holds || c.lapsed || c.phase == holding && !c.bereft || c.granted && r.grantHasNoEnd {
		return false
	}
	if c.lapsed = true; c.limit() == 1 {
		c.holds = false // it was alone
	}
	if c.reply == held && !c.bereft {
		c.reply = heldLate
	}
	if r.hashLivesAsTheLatest {
		for i := range s.claims {
			s.claims[i].holds = false
		}
	}
	return true
}

// expire is the end of the whole lock: when the time of everybody in it is over.
func (r *rules) expire(s *state, o owner) bool {
	if o != 0 || !s.taken() {
		return false
	}
	for i := range s.claims {
		if c := &s.claims[i]; c.holds && !c.lapsed {
			return false
		}
	}
	for i := range s.claims {
		s.claims[i].holds = false
	}
	return true
}

// passOver takes a claim out of the queue that nobody asks for any more.
func (r *rules) passOver(s *state, o owner) bool {
	c := &s.claims[o]
	was := c.queued && c.phase == over
	c.queued = c.queued && !was
	return was
}

func (r *rules) passOverWanted(s *state, o owner) bool {
	c := &s.claims[o]
	switch {
	case !c.queued || c.phase == over:
		return false
	case c.mute && !c.marked: // it did not say yet that no message reaches it
	case s.budget.skips == 0:
		return false
	default:
		s.budget.skips--
	}
	c.queued = false
	return true
}

// unsubscribe is the loss of the right to subscribe, or of the connection.
func (r *rules) unsubscribe(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != waiting || c.mute || s.budget.mutes == 0 {
		return false
	}
	s.budget.mutes--
	c.mute = true
	return true
}

// sendAcquire leaves an acquire on the wire.
func (c *claim) sendAcquire() bool {
	switch {
	case c.phase != waiting:
		return false
	case c.known > 0:
		c.lateAcquire |= placed
	default:
		c.lateAcquire |= unplaced
	}
	return true
}

func (r *rules) unplacedArrives(s *state, o owner) bool {
	if s.claims[o].lateAcquire&unplaced == 0 {
		return false
	}
	r.acquire(s, o, true, 0)
	return true
}

func (r *rules) placedArrives(s *state, o owner) bool {
	if s.claims[o].lateAcquire&placed == 0 {
		return false
	}
	r.acquire(s, o, true, s.claims[o].known)
	return true
}

func (r *rules) releaseArrives(s *state, o owner) bool {
	if !s.claims[o].lateRelease {
		return false
	}
	r.release(s, o)
	return true
}

func (r *rules) renewArrives(s *state, o owner) bool {
	if !s.claims[o].lateRenew {
		return false
	}
	r.renew(s, o)
	return true
}

func (r *rules) lateLost(s *state, o owner) bool {
	c := &s.claims[o]
	were := c.lateAcquire != 0 || c.lateRelease || c.lateRenew
	c.lateAcquire, c.lateRelease, c.lateRenew = 0, false, false
	return were
}

// crash leaves what is on the wire there.
func (r *rules) crash(s *state, o owner) bool {
	c := &s.claims[o]
	if c.dead || c.phase == free || c.phase == over || s.budget.crashes == 0 {
		return false
	}
	s.budget.crashes--
	c.sendAcquire()
	c.lateRelease = c.lateRelease || c.phase == releasing
	c.dead = true
	return true
}

func (r *rules) flush(s *state, o owner) bool {
	if o != 0 || s.budget.flushes == 0 {
		return false
	}
	for i := range s.claims {
		c := &s.claims[i]
		c.bereft = c.phase == holding || c.reply == held
		c.holds, c.queued, c.tombstone, c.released = false, false, false, false
	}
	s.budget.flushes--
	s.last, s.fence, s.untold, s.flushed = 0, 0, 0, true
	s.excused = s.excused || s.now < s.highest()
	return true
}

// stepBack sets Redis's clock back, while nobody is inside: expiries are of the clock, too.
func (r *rules) stepBack(s *state, o owner) bool {
	if o != 0 || s.budget.steps == 0 || s.taken() {
		return false
	}
	for i := range s.claims {
		if s.claims[i].phase == holding {
			return false
		}
	}
	s.budget.steps--
	s.now = 1
	s.excused = s.excused || max(s.last, s.untold) < s.highest()
	return true
}

func (r *rules) catchUp(s *state, o owner) bool {
	high := max(s.last, s.highest())
	if o != 0 || s.now >= high {
		return false
	}
	s.now = high + gap
	return true
}

// highest is the highest fence that anybody has.
func (s *state) highest() uint8 {
	high := s.top
	for i := range s.claims {
		high = max(high, s.claims[i].got)
	}
	return high
}
