package model

var steps = []step{
	can("gets a caller", 0, (*rules).come),
	can("gets a caller that does not wait", 0, (*rules).comeOnce),
	can("loses a caller", 0, (*rules).leave),
	can("asks for what it was granted", 4, (*rules).askForGrant),
	can("asks", 6, (*rules).ask),
	can("asks, without an answer", 0, (*rules).askInVain),
	can("is told that it holds the lock, and works", 3, (*rules).begin),
	can("is told that it holds the lock, and works with a MinHold", 0, (*rules).beginKept),
	can("works on a message", onlyIfBroken, (*rules).beginUnasked),
	can("misses a message", onlyIfBroken, (*rules).untold),
	can("ends its work, and the next in line goes on", 2, (*rules).handOver),
	can("ends its work", 2, (*rules).end),
	can("passes its deadline", 0, (*rules).lose),
	can("learns from a renewal that it is gone", 0, (*rules).findGone),
	can("learns that it was revoked", 0, (*rules).findRevoked),
	can("renews a hold that was revoked", onlyIfBroken, (*rules).renewRevoked),
	can("ends its work after the loss", 1, (*rules).endLost),
	can("releases", 1, (*rules).giveBack),
	can("releases, without an answer", 0, (*rules).giveBackInVain),
	can("releases no more", 0, (*rules).giveBackNoMore),
	can("expires", 5, (*rules).expire),
	can("is passed over", 7, (*rules).passOver),
	can("is passed over, though somebody wants it", 0, (*rules).passOverWanted),
	can("asks late, without a place", 0, (*rules).unplacedArrives),
	can("asks late, with its place", 0, (*rules).placedArrives),
	can("releases late", 0, (*rules).releaseArrives),
	can("has nothing on its way any more", 1, (*rules).lateLost),
	can("and its process crash", 0, (*rules).crash),
	can("loses its subscription", 0, (*rules).unsubscribe),
	can("subscribes again", 0, (*rules).subscribe),
	can("sees a MinHold end", 5, (*rules).endRest),
	can("is revoked", 0, (*rules).revoke),
	can("has its hold broken", 0, (*rules).breakHold),
	can("sees somebody step in late", onlyIfBroken, (*rules).stepInLate),
	can("sees Redis lose its data", 0, (*rules).flush),
	can("sees Redis's clock step back", 0, (*rules).stepBack),
	can("sees Redis's clock catch up", 0, (*rules).catchUp),
}

func (r *rules) come(s *state, o owner) bool {
	active := s.active(o)
	if s.of(o).dead || s.budget.calls == 0 || active == o.other() ||
		active == nobody && !s.claim(o, claim{phase: waiting}) {
		return false
	}
	s.budget.calls--
	s.of(o).line++
	return true
}

// comeOnce is a caller that does not wait. It makes a difference if it is the first.
func (r *rules) comeOnce(s *state, o owner) bool {
	if s.active(o) != nobody || !r.come(s, o) {
		return false
	}
	s.claims[o].direct = true
	return true
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

// desert gives up a claim that nobody wants any more.
func (c *claim) desert(in *instance) {
	switch {
	case in.line > 0 || c.phase != waiting:
	case c.known > 0 || c.inDoubt || c.reply != none:
		c.phase, c.reply, c.fence = releasing, none, 0
	default:
		c.phase = over // it was not sent yet
	}
}

func (r *rules) askForGrant(s *state, o owner) bool {
	return s.claims[o].holds && r.ask(s, o)
}

// ask is a round trip. An acquire may be on its way for any time, but as it may as well
// be sent then, that is no state. The same goes for answers that say "busy".
func (r *rules) ask(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != waiting || c.reply != none || r.hasNoPulse && c.known > 0 && !c.told {
		return false
	}
	if c.holds && s.revoked && !r.confirmsRevoked || c.ended {
		return r.askRevoked(s, o)
	}
	if r.isOver(c) {
		s.breaks(outcast)
	}
	before := c.known
	r.acquire(s, o, !c.direct, c.known)
	c.told = false
	if c.answer(s); c.direct && c.reply == none {
		s.leave(o)
	}
	if c.phase == waiting && c.queued && c.known > before && before > 0 {
		s.breaks(order)
	}
	return true
}

func (c *claim) answer(s *state) {
	if c.holds {
		c.reply, c.got, c.ahead = held, s.fence, s.ahead
	} else {
		c.known = c.place
	}
}

func (r *rules) askInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if s.budget.silences == 0 || !c.sendAcquire() {
		return false
	}
	s.budget.silences--
	c.reply, c.inDoubt = none, true
	return true
}

func (r *rules) untold(s *state, o owner) bool {
	c := &s.claims[o]
	was := c.told
	c.told = false
	return was
}

func (r *rules) begin(s *state, o owner) bool {
	c := &s.claims[o]
	switch {
	case c.reply == none || c.reply == heldLate && !r.trustsLateAnswers:
		return false
	case s.of(o).line == 0:
		c.phase, c.reply, c.fence = releasing, none, 0
	default:
		s.work(o, c.got)
	}
	return true
}

func (r *rules) beginUnasked(s *state, o owner) bool {
	if !s.claims[o].told || !r.trustsMessages {
		return false
	}
	s.work(o, s.claims[o].got)
	return true
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
		s.tick()
	}
	s.work(o, c.fence+1)
	return true
}

func (r *rules) end(s *state, o owner) bool {
	return s.claims[o].phase == holding && s.giveUp(o, releasing)
}

func (r *rules) lose(s *state, o owner) bool {
	return s.claims[o].phase == holding && s.giveUp(o, lost)
}

func (r *rules) findGone(s *state, o owner) bool {
	c := &s.claims[o]
	return c.phase == holding && (!c.holds || c.bereft) && s.giveUp(o, gone)
}

// giveUp ends a grant. The callers behind it go on with a claim of their own: once the
// release was sent, or, as here, at any time.
func (s *state) giveUp(o owner, phase phase) bool {
	c := &s.claims[o]
	if s.of(o).line > 0 && !s.claim(o.other(), claim{phase: waiting, fence: c.fence}) {
		return false
	}
	c.phase, c.reply = phase, none
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

// giveBack is a round trip.
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
	if s.budget.silences == 0 || !c.sendRelease() {
		return false
	}
	s.budget.silences--
	c.again = true
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
