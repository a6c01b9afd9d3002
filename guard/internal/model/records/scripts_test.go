package records

import "github.com/redlatch/redlatch/guard/guardstore"

// said is what a store answers to a claim, to a release, or to Forget.
type said struct {
	claim   guardstore.ClaimStatus
	record  recordState // why there is nothing to run
	release guardstore.ReleaseStatus
	forget  guardstore.ForgetStatus
}

// answer is a reply. notified are the owners that were asked to ask, a bit each.
type answer struct {
	said

	fence    uint8 // held: of the hold; recorded: of the record
	earlier  uint8
	of       owner // done: whose bytes
	notified uint8
}

// acquire is what a claim sends.
func (r *rules) acquire(s *state, o owner) (a answer) {
	r.note(s, event{what: asks, of: o, claim: s.claims[o]})
	c := &s.claims[o]
	if a, recorded := r.recorded(s, o); recorded {
		s.checkReply(o, a)
		return a
	}
	a.of = noOwner
	earlier := s.record.fence
	if s.record.owner == o && s.record.state == begun {
		if earlier = s.record.before; r.earlierIsNotifiedOnce {
			earlier = 0
		}
	}
	switch {
	case s.holder == o:
	case c.tombstone && !r.tombstonesAreIgnored:
		a.claim = guardstore.ClaimFinished
		return a
	default:
		if c.waits && c.place == 0 {
			s.places++
			c.place = s.places
		}
		if first := s.front(); s.holder == noOwner && (first == o || first == noOwner) {
			s.admit(o)
		} else if s.holder == noOwner {
			s.admit(first)
			a.notified |= 1 << first
		}
	}
	if s.holder != o {
		a.claim = guardstore.ClaimBusy
		return a
	}
	if r.earlierIsForgotten {
		earlier = 0
	}
	if s.checkReply(o, answer{said: said{claim: guardstore.ClaimHeld}}); !r.beginIsNotWritten {
		s.record = record{state: begun, fence: s.fence, before: earlier, owner: o, input: c.input, touched: true}
	}
	a.claim, a.fence, a.earlier = guardstore.ClaimHeld, s.fence, earlier
	return a
}

// recorded is the reply where there is nothing to run.
func (r *rules) recorded(s *state, o owner) (answer, bool) {
	c, is := &s.claims[o], &s.record
	a := answer{said: said{claim: guardstore.ClaimRecorded, record: is.state}, fence: is.fence, of: noOwner}
	switch {
	case is.state == absent:
		return a, false
	case is.input > 0 && c.input > 0 && is.input != c.input && !r.inputIsIgnored:
		a.record = guardstore.RecordOtherInput
	case is.state == done:
		a.of = is.owner
		return a, !r.doneRunsAgain
	case is.state == unkept:
	case is.owner == o, !c.atMostOnce, is.owner != noOwner && is.owner == s.holder && !r.refusesBesideHolder, r.followsAtMostOnce:
		return a, false
	}
	return a, true
}

// admit gives a free lock to an owner.
func (s *state) admit(o owner) {
	s.top++
	s.holder, s.fence = o, s.top
	s.claims[o].place = 0
}

// release ends a claim.
func (r *rules) release(s *state, o owner) (a answer) {
	c := &s.claims[o]
	a.of = noOwner
	r.note(s, event{what: gives, of: o, claim: *c})
	before, held, first := s.record, s.holder == o, s.front()
	switch {
	case held:
		a.release, s.holder = guardstore.ReleaseDone, noOwner
	default:
		a.release = guardstore.ReleaseLost
	}
	if c.inDoubt && !r.neverTombstones {
		c.tombstone = true
	}
	c.place = 0
	if next := s.front(); first != noOwner && (held || first == o) && s.holder == noOwner && next != noOwner {
		s.admit(next)
		a.notified |= 1 << next
	}
	if silent := c.outcome == unsure || c.outcome == never && r.neverUndoes; !silent {
		a.notified |= r.finish(s, o, held)
		s.checkOutcome(o, held, before)
	}
	return a
}

// finish writes an outcome, and returns the owners to notify.
func (r *rules) finish(s *state, o owner, held bool) (notified uint8) {
	c, is := &s.claims[o], &s.record
	own := is.owner == o && is.state == begun
	late := own && (c.atMostOnce || c.outcome == never) && !r.lateOutcomeIsLost || r.outcomeNeedsNoRecord && c.atMostOnce
	free := is.state == absent || is.owner == o || r.holderMayOverwrite
	switch writes := c.outcome.writes(); {
	case (!held || !free) && !late:
		if is.owner == o && is.state > begun {
			is.touched = true
		}
	case writes != absent:
		fence := c.fence
		if own {
			fence = is.fence
		}
		*is = record{state: writes, fence: fence, owner: o, input: c.input, touched: true}
		c.known = true
		for i := range s.claims {
			if s.claims[i].place > 0 {
				notified |= 1 << i
			}
		}
	case !own || r.failureIsNotWritten:
	case is.before > 0 && !r.failureForgetsEarlier:
		is.state, is.fence, is.before, is.owner, is.touched = begun, is.before, 0, noOwner, true
		c.cleared = c.outcome == failed
	default:
		*is = record{owner: noOwner, touched: true}
		c.cleared = c.outcome == failed
	}
	return notified
}

// forget is the command of an operator.
func (r *rules) forget(s *state) (a answer) {
	a.of = noOwner
	r.note(s, event{what: forgets, of: noOwner, seen: s.seen})
	other := s.seen != recordID{s.record.state, s.record.fence}
	switch runs := s.record.state == begun && s.record.owner != noOwner && s.record.owner == s.holder; {
	case s.record.state == absent, other && !r.forgetsWhatIsThere:
		a.forget = guardstore.ForgetNone
	case runs && !r.forgetsWhatRuns:
		a.forget = guardstore.ForgetBusy
	default:
		if a.forget = guardstore.ForgetDone; runs || other {
			s.breaks(forgotten)
		}
		s.forgive()
	}
	return a
}

// forgive follows the loss of a record: no instance can know its text any more.
func (s *state) forgive() {
	s.record = record{owner: noOwner}
	for i := range s.claims {
		s.claims[i].cleared = true
	}
}
