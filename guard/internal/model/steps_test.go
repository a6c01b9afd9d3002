package model

import "github.com/redlatch/redlatch/guard/internal/model/modeltest"

var can = modeltest.Can[rules, state, owner]

var steps = []modeltest.Step[rules, state, owner]{
	can("gets a caller that wants to be alone", 0, comes(exclusive, false)),
	can("gets a caller that wants to be one of two", 0, comes(two, false)),
	can("gets a caller that wants to read", 0, comes(shared, false)),
	can("gets a caller that wants to be alone, and does not wait", 0, comes(exclusive, true)),
	can("gets a caller that wants to be one of two, and does not wait", 0, comes(two, true)),
	can("gets a caller that wants to read, and does not wait", 0, comes(shared, true)),
	can("loses a caller", 0, (*rules).leave),
	can("asks for what it was granted", 4, (*rules).askForGrant),
	can("asks", 6, (*rules).ask),
	can("asks, without an answer", 0, (*rules).askInVain),
	can("learns that it is inside, and works", 3, (*rules).begin),
	can("learns that it is inside, and works with a MinHold", 0, (*rules).beginKept),
	can("ends its work, and hands over to the next in line", 2, (*rules).handOver),
	can("ends its work", 2, ends(releasing)),
	can("passes its deadline", 0, ends(lost)),
	can("renews", 0, (*rules).renews),
	can("renews, without an answer", 0, (*rules).renewInVain),
	can("ends its work after the loss", 1, (*rules).endLost),
	can("releases", 1, (*rules).giveBack),
	can("releases, without an answer", 0, (*rules).giveBackInVain),
	can("releases no more", 0, (*rules).giveBackNoMore),
	can("has its time over", 5, (*rules).lapse),
	can("sees the lock expire", 5, (*rules).expire),
	can("is passed over", 7, (*rules).skip),
	can("is passed over, though its callers wait", 0, (*rules).skipWanted),
	can("asks late, without a place", 0, acquireArrives(unplaced)),
	can("asks late, with its place", 0, acquireArrives(placed)),
	can("releases late", 0, (*rules).releaseArrives),
	can("renews late", 0, (*rules).renewArrives),
	can("has nothing on its way any more", 1, (*rules).lateLost),
	can("and its process crash", 0, (*rules).crash),
	can("loses its subscription", 0, (*rules).unsubscribe),
	can("subscribes again", 0, (*rules).subscribe),
	can("sees a MinHold end", 5, (*rules).endRest),
	can("is revoked", 0, (*rules).revoke),
	can("sees Redis lose its data", 0, (*rules).flush),
	can("sees Redis's clock step back", 0, (*rules).stepBack),
	can("sees Redis's clock catch up", 0, (*rules).catchUp),
}

// comes is a new caller. That it does not wait makes a difference if it is the first.
func comes(m mode, direct bool) func(r *rules, s *state, o owner) bool {
	return func(_ *rules, s *state, o owner) bool {
		c, in, b := &s.claims[o], s.of(o), &s.budget
		if b.calls == 0 || !b.kinds.allow(m, direct) {
			return false
		}
		switch active := s.active(o); {
		case s.lines() && active == o && !direct: // it joins the others in line
		case s.lines() && (in.dead || active != noOwner), c.phase != free, s.isFreeBefore(o):
			return false
		default:
			*c, in.dead = claim{entry: entry{mode: m}, phase: waiting, direct: direct}, false
		}
		b.calls--
		in.line++
		return true
	}
}

func (k kinds) allow(m mode, direct bool) bool {
	return k == 0 && m == exclusive || k&(1<<m) != 0 && (!direct || k&hasty != 0)
}

// isFreeBefore reports whether there is another free slot, which is the same.
func (s *state) isFreeBefore(o owner) bool {
	for i := range o {
		if s.claims[i].phase == free && !s.lines() {
			return true
		}
	}
	return false
}

// claim makes a claim of a free slot.
func (s *state) claim(o owner, c claim) bool {
	if s.claims[o].phase != free {
		return false
	}
	s.claims[o] = c
	return true
}

func (r *rules) leave(s *state, o owner) bool {
	if s.of(o).line == 0 || s.active(o) != o {
		return false
	}
	s.leave(o)
	return true
}

func (s *state) leave(o owner) {
	s.of(o).line--
	s.claims[o].direct = false
	s.claims[o].desert(s.of(o))
}

// desert gives up a claim whose callers have left.
func (c *claim) desert(in *instance) {
	switch {
	case in.line > 0 || c.phase != waiting:
	case c.known > 0 || c.inDoubt || c.reply != none:
		c.phase, c.reply, c.fence = releasing, none, 0
	default:
		c.phase = ended // it was not sent yet
	}
}

func (r *rules) askForGrant(s *state, o owner) bool {
	return s.claims[o].holds && !s.claims[o].lapsed && r.ask(s, o)
}

// ask is a round trip. An acquire may be on its way for any time, but as it may as well
// be sent then, that is no state. The same goes for answers that say "busy".
func (r *rules) ask(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != waiting || c.reply != none && c.reply != heldLow {
		return false
	}
	if c.holds && c.revoked && !r.confirmsRevoked {
		return r.askRevoked(s, o)
	}
	if r.hasEnded(c) {
		s.breaks(outcast)
	}
	before := c.known
	r.acquire(s, o, !c.direct, c.known, r.floorNow(s, o))
	if c.reply = none; c.holds {
		if s.hears(o); s.of(o).high && c.noted <= s.water && !r.ignoresHighWater {
			c.reply = heldLow
			return true
		}
		c.reply, c.got, c.ahead = held, c.noted, c.noted > s.now
		return true
	}
	if c.known = c.place; c.direct {
		s.leave(o)
	} else if c.queued && c.known > before && before > 0 {
		s.breaks(order)
	}
	return true
}

func (r *rules) askInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != waiting || !modeltest.Spend(&s.budget.silences) {
		return false
	}
	c.sendAcquire()
	c.reply, c.inDoubt = none, true
	if c.direct && !s.lines() {
		s.leave(o)
	}
	return true
}

func (r *rules) begin(s *state, o owner) bool {
	c := &s.claims[o]
	switch {
	case c.phase != waiting || c.reply == none || c.reply == heldLow || c.reply == heldLate && !r.trustsLateAnswers:
		return false
	case s.of(o).line == 0:
		c.phase, c.reply, c.fence = releasing, none, 0
	default:
		c.grant = c.got
		s.work(o, c.got)
	}
	return true
}

// beginKept is work that is to keep the lock taken for longer than it takes itself.
func (r *rules) beginKept(s *state, o owner) bool {
	if s.of(o).line == 0 || s.claims[o].reply != held || !modeltest.Spend(&s.budget.keeps) {
		return false
	}
	s.claims[o].keeps = true
	return r.begin(s, o)
}

func (r *rules) handOver(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != holding || s.of(o).line == 0 || c.ahead && !r.handsOnAhead || c.keeps && !r.handsOnKept {
		return false
	}
	if c.keeps {
		s.breaks(early)
	}
	if c.fence <= s.now && !r.outrunsClock {
		s.now += gap / 2 // not so much that a late clock catches up
	}
	s.work(o, c.fence+1)
	return true
}

// ends is the end of work, or of the trust in its grant.
func ends(as phase) func(r *rules, s *state, o owner) bool {
	return func(_ *rules, s *state, o owner) bool { return s.claims[o].phase == holding && s.giveUp(o, as) }
}

// giveUp ends a grant. The callers that wait for it go on with a claim of their own: once the
// release was sent, or, as here, at any time.
func (s *state) giveUp(o owner, phase phase) bool {
	c := &s.claims[o]
	if s.of(o).line > 0 && !s.claim(o.other(), claim{phase: waiting, fence: c.fence}) {
		return false
	}
	c.phase, c.reply = phase, none
	return true
}

// renews is a round trip. A renewal that succeeds makes no difference.
func (r *rules) renews(s *state, o owner) bool {
	c := &s.claims[o]
	switch {
	case c.phase != holding:
		return false
	case r.renew(s, o):
		s.hears(o)
		if c.bereft {
			s.breaks(silent)
		}
		return true
	case c.revoked:
		return s.giveUp(o, lost)
	}
	return s.giveUp(o, gone)
}

// renewInVain matters where others get in beside a holder: a renewal may find it there once more.
func (r *rules) renewInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != holding || c.lateRenew || s.lines() || !modeltest.Spend(&s.budget.silences) {
		return false
	}
	c.lateRenew = true
	return true
}

func (r *rules) endLost(s *state, o owner) bool {
	c := &s.claims[o]
	switch {
	case c.phase == lost, c.phase == gone && c.inDoubt:
		c.phase = releasing
	case c.phase == gone:
		c.phase = ended
	default:
		return false
	}
	return true
}

// giveBack is a round trip.
func (r *rules) giveBack(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != releasing {
		return false
	}
	r.release(s, o)
	c.phase, c.again = ended, false
	return true
}

func (r *rules) giveBackInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != releasing || !modeltest.Spend(&s.budget.silences) {
		return false
	}
	c.lateRelease, c.again = true, true
	return true
}

func (r *rules) giveBackNoMore(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != releasing || !c.again {
		return false
	}
	c.phase = ended
	return true
}
