package records

import (
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

var can = modeltest.Can[rules, state, owner]

var steps = []modeltest.Step[rules, state, owner]{
	can("comes", 0, comes(false, 1, false)),
	can("comes, at most once", 0, comes(true, 1, false)),
	can("comes and waits", 0, comes(false, 1, true)),
	can("comes and waits, at most once", 0, comes(true, 1, true)),
	can("comes without an input", 0, comes(false, 0, false)),
	can("comes without an input, at most once", 0, comes(true, 0, false)),
	can("comes with another input", 0, comes(false, 2, false)),
	can("comes with another input, at most once", 0, comes(true, 2, false)),
	can("asks for what it was granted", 3, (*rules).askForGrant),
	can("asks", 5, (*rules).ask),
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
		if b.calls == 0 || s.claims[o].phase != free || input > b.inputs || input == 0 && b.inputs < 3 || waits && !b.waits {
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

func (r *rules) askForGrant(s *state, o owner) bool { return s.holder == o && r.ask(s, o) }

// ask is a round trip. A slow answer is the same as the loss of the lock.
func (r *rules) ask(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != asking {
		return false
	}
	switch a := r.acquire(s, o); {
	case a.record == begun:
		// An owner that never ran may have a successor that failed: then the claim is refused needlessly.
		if w := s.record.owner; w != noOwner && (s.holder == w || s.claims[w].told || !s.unsure(o)) {
			s.breaks(refused)
		}
		c.leave(s, o)
	case a.claim == guardstore.ClaimBusy:
		if !c.waits {
			c.leave(s, o)
		}
	case a.claim == guardstore.ClaimHeld:
		s.checkBegin(o, a.earlier)
		c.phase, c.fence, c.ran = running, a.fence, true
	default:
		c.leave(s, o)
	}
	return true
}

// leave gives up a claim that did not run.
func (c *claim) leave(s *state, o owner) {
	if c.phase = ended; c.inDoubt || c.place > 0 || s.holder == o {
		c.phase = finishing
	}
}

func (r *rules) askInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != asking || !modeltest.Spend(&s.budget.silences) {
		return false
	}
	c.lateAcquire, c.inDoubt = true, true
	return true
}

func (r *rules) giveUp(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != asking {
		return false
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
	c.told = a.release == guardstore.ReleaseDone && c.outcome == kept && !c.lost
	c.phase, c.again = ended, false
	return true
}

func (r *rules) giveBackInVain(s *state, o owner) bool {
	c := &s.claims[o]
	if c.phase != finishing || !modeltest.Spend(&s.budget.silences) {
		return false
	}
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
	if c.dead || c.phase == free || c.phase == ended || !modeltest.Spend(&s.budget.crashes) {
		return false
	}
	c.lateAcquire = c.lateAcquire || c.phase == asking
	c.lateRelease = c.lateRelease || c.phase == finishing
	c.dead = true
	return true
}

func (r *rules) expire(s *state, o owner) bool {
	if o != 0 || s.record.state == absent || !modeltest.Spend(&s.budget.losses) {
		return false
	}
	r.note(s, event{what: dropsRecord, of: noOwner})
	s.forgive()
	return true
}

func (r *rules) flush(s *state, o owner) bool {
	if o != 0 || !modeltest.Spend(&s.budget.losses) {
		return false
	}
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
	if o != 0 || s.record.state == absent || s.seen.state != absent || !modeltest.Spend(&s.budget.forgets) {
		return false
	}
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
