package records

import "github.com/redlatch/redlatch/guard/internal/model/modeltest"

var can = modeltest.Can[rules, state, owner]

var steps = []modeltest.Step[rules, state, owner]{
	can("comes", 0, comes(false, 1, false)),
	can("comes, at most once", 0, comes(true, 1, false)),
	can("comes and waits", 0, comes(false, 1, true)),
	can("comes and waits, at most once", 0, comes(true, 1, true)),
	can("comes with another input", 0, comes(false, 2, false)),
	can("comes with another input, at most once", 0, comes(true, 2, false)),
	can("is joined by a caller of its process", 0, (*rules).join),
	can("is left by the caller for whom it was made", 0, (*rules).part),
	can("serves the callers that wait", 2, (*rules).goOn),
	can("asks for what it was granted", 3, (*rules).askForGrant),
	can("asks", 5, (*rules).ask),
	can("asks for a caller that is in front by then", 0, (*rules).askForOther),
	can("asks, without an answer", 0, (*rules).askInVain),
	can("gives up", 0, (*rules).giveUp),
	can("ends with a result", 2, ends(kept)),
	can("ends with a result that is too long", 0, ends(tooLong)),
	can("ends, and it is not known how", 0, ends(unsure)),
	can("fails", 0, ends(failed)),
	can("releases", 1, (*rules).giveBack),
	can("releases, without an answer", 0, (*rules).giveBackInVain),
	can("releases no more", 0, (*rules).giveBackNoMore),
	can("loses the lock", 4, (*rules).lose),
	can("is passed over", 6, (*rules).skip),
	can("asks late", 0, (*rules).acquireArrives),
	can("releases late", 0, (*rules).releaseArrives),
	can("has nothing on its way any more", 1, (*rules).lateLost),
	can("crashes", 0, (*rules).crash),
	can("sees the record end", 0, (*rules).expire),
	can("sees Redis lose its data", 0, (*rules).flush),
	can("looks at the record", 0, (*rules).look),
	can("forgets the record that it saw", 0, (*rules).forgetArrives),
	can("has no Forget on its way any more", 0, (*rules).forgetLost),
}

// comes is a new caller.
func comes(atMost bool, input uint8, waits bool) func(r *rules, s *state, o owner) bool {
	return func(_ *rules, s *state, o owner) bool {
		b := &s.budget
		if b.calls == 0 || s.claims[o].phase != free || input > b.inputs || waits && !b.waits {
			return false
		}
		for i := range o { // free slots are the same
			if s.claims[i].phase == free {
				return false
			}
		}
		b.calls--
		s.claims[o] = claim{phase: asking, atMostOnce: atMost, input: input, waits: waits}
		return true
	}
}

// join is one more caller of a process, with the same wishes.
func (r *rules) join(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != asking || !c.waits || s.budget.joins == 0 {
		return false
	}
	s.budget.joins--
	c.others++
	return true
}

func (r *rules) part(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != asking || c.left || c.others == 0 {
		return false
	}
	c.left = true
	return true
}

// goOn is the next claim of a process whose work is done, for a caller that still waits.
func (r *rules) goOn(s *state, o owner) bool {
	for i := range o {
		if s.claims[i].phase == free {
			return false
		}
	}
	for i := range s.claims {
		if c := &s.claims[i]; c.phase == ended && c.others > 0 && s.claims[o].phase == free {
			s.claims[o] = claim{phase: asking, atMostOnce: c.atMostOnce, input: c.input, waits: true, others: c.others - 1}
			c.others = 0
			return true
		}
	}
	return false
}

// askForOther is for a call that began earlier than the one for whom the claim was made.
func (r *rules) askForOther(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != asking || c.left || c.others == 0 {
		return false
	}
	c.serves = r.ask(s, o) && c.phase == running
	return true
}

func (r *rules) askForGrant(s *state, o owner) bool { return s.holder == o && r.ask(s, o) }

// ask is a round trip. A slow answer is the same as the loss of the lock.
func (r *rules) ask(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != asking {
		return false
	}
	switch a := r.acquire(s, o); a.kind {
	case replyBegun:
		// An owner that never ran may have a successor that failed: then the claim is refused needlessly.
		if w := s.record.owner; w != noOwner && (s.holder == w || s.claims[w].told || !s.unsure(o)) {
			s.breaks(refused)
		}
		c.leave(s, o)
	case replyBusy:
		if !c.waits {
			c.leave(s, o)
		}
	case replyHeld:
		s.checkBegin(o, a.earlier)
		c.phase, c.fence, c.ran = running, a.fence, true
		if c.left {
			c.others, c.serves = c.others-1, true
		}
	default:
		c.leave(s, o)
	}
	return true
}

// leave gives up a claim that did not run, and all its callers.
func (c *claim) leave(s *state, o owner) {
	c.others = 0
	if c.phase = ended; c.inDoubt || c.place > 0 || s.holder == o {
		c.phase = finishing
	}
}

func (r *rules) askInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != asking || s.budget.silences == 0 {
		return false
	}
	s.budget.silences--
	c.lateAcquire, c.inDoubt = true, true
	return true
}

func (r *rules) giveUp(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != asking || c.others > 1 || c.others == 1 && !c.left {
		return false // a caller waits
	}
	c.leave(s, o)
	return true
}

// ends is the return of fn, whether or not the lock is still there.
func ends(as outcome) func(r *rules, s *state, o owner) bool {
	return func(_ *rules, s *state, o owner) bool {
		c := &s.claims[o]
		if c.phase != running {
			return false
		}
		c.phase, c.outcome = finishing, as
		return true
	}
}

func (r *rules) giveBack(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != finishing {
		return false
	}
	a := r.release(s, o)
	c.told = a.kind == replyReleased && c.outcome == kept && !c.lost
	c.phase, c.again = ended, false
	return true
}

func (r *rules) giveBackInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != finishing || s.budget.silences == 0 {
		return false
	}
	s.budget.silences--
	c.lateRelease, c.again = true, true
	return true
}

func (r *rules) giveBackNoMore(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != finishing || !c.again {
		return false
	}
	c.phase = ended
	return true
}

// lose is the end of a lease, or a DEL of the lock. No instance need notice.
func (r *rules) lose(s *state, o owner) bool {
	if s.holder != o {
		return false
	}
	r.note(s, event{what: dropsLock, of: noOwner})
	s.holder, s.claims[o].lost = noOwner, true
	return true
}

// skip takes a claim out of the queue whose owner has ended.
func (r *rules) skip(s *state, o owner) bool {
	c := &s.claims[o]
	if c.place == 0 || c.phase != ended {
		return false
	}
	r.note(s, event{what: leaves, of: o})
	c.place = 0
	return true
}

func (r *rules) acquireArrives(s *state, o owner) bool {
	if !s.claims[o].lateAcquire {
		return false
	}
	r.acquire(s, o)
	return true
}

func (r *rules) releaseArrives(s *state, o owner) bool {
	if !s.claims[o].lateRelease {
		return false
	}
	r.release(s, o)
	return true
}

func (r *rules) lateLost(s *state, o owner) bool {
	c := &s.claims[o]
	were := c.lateAcquire || c.lateRelease
	c.lateAcquire, c.lateRelease = false, false
	return were
}

// crash keeps the commands on the wire.
func (r *rules) crash(s *state, o owner) bool {
	c := &s.claims[o]
	if c.dead || c.phase == free || c.phase == ended || s.budget.crashes == 0 {
		return false
	}
	s.budget.crashes--
	c.lateAcquire = c.lateAcquire || c.phase == asking
	c.lateRelease = c.lateRelease || c.phase == finishing
	c.others = 0
	c.dead = true
	return true
}

func (r *rules) expire(s *state, o owner) bool {
	if o != 0 || s.record.state == absent || s.budget.losses == 0 {
		return false
	}
	s.budget.losses--
	r.note(s, event{what: dropsRecord, of: noOwner})
	s.forgive()
	return true
}

func (r *rules) flush(s *state, o owner) bool {
	if o != 0 || s.budget.losses == 0 {
		return false
	}
	s.budget.losses--
	r.note(s, event{what: flushes, of: noOwner})
	s.forgive()
	s.holder, s.flushed = noOwner, true
	for i := range s.claims {
		s.claims[i].lost = true
		s.claims[i].place, s.claims[i].tombstone = 0, false
	}
	return true
}

// look is the first half of Forget.
func (r *rules) look(s *state, o owner) bool {
	if o != 0 || s.budget.forgets == 0 || s.record.state == absent || s.seen.state != absent {
		return false
	}
	s.budget.forgets--
	s.seen = recordID{s.record.state, s.record.fence}
	return true
}

func (r *rules) forgetArrives(s *state, o owner) bool {
	if o != 0 || s.seen.state == absent {
		return false
	}
	r.forget(s)
	return true
}

func (r *rules) forgetLost(s *state, o owner) bool {
	were := o == 0 && s.seen.state != absent
	if were {
		s.seen = recordID{}
	}
	return were
}
