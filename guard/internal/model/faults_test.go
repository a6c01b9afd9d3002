package model

import (
	"slices"

	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

// lapse is the end of a holder's time, or of the ack window. A caller that trusts it has passed
// its deadline before.
func (r *rules) lapse(s *state, o owner) bool {
	c := &s.claims[o]
	if !c.holds || c.lapsed || c.phase == holding && !c.bereft || c.granted && r.grantHasNoEnd {
		return false
	}
	if c.lapsed = true; c.limit() == 1 {
		c.holds = false // it was alone
	} else if !c.outran && c.noted > s.now {
		s.now = c.noted + gap/2 // its time counts from its fence, and has passed by the server's clock
	}
	if c.reply == held && !c.bereft {
		c.reply = heldLate
	}
	return true
}

// expire is the end of the whole lock: when the last holder expires.
func (r *rules) expire(s *state, o owner) bool {
	if o != 0 || s.holder() == noOwner {
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

// skip takes a claim out of the queue whose owner has ended.
func (r *rules) skip(s *state, o owner) bool {
	c := &s.claims[o]
	was := c.queued && c.phase == ended
	c.queued = c.queued && !was
	return was
}

func (r *rules) skipWanted(s *state, o owner) bool {
	c := &s.claims[o]
	switch {
	case !c.queued || c.phase == ended:
		return false
	case s.of(o).mute && !c.marked: // it did not say yet that no message reaches it
	case !modeltest.Spend(&s.budget.skips):
		return false
	}
	c.queued = false
	return true
}

// unsubscribe is the loss of the right to subscribe, or of the connection.
func (r *rules) unsubscribe(s *state, o owner) bool {
	in := s.of(o)
	if s.lines() && o%slots != 0 || !s.lines() && s.claims[o].phase != waiting || in.dead || in.mute || !modeltest.Spend(&s.budget.mutes) {
		return false
	}
	in.mute = true
	return true
}

func (r *rules) subscribe(s *state, o owner) bool {
	in := s.of(o)
	was := in.mute
	in.mute = false
	return was
}

// sendAcquire leaves an acquire on the wire.
func (c *claim) sendAcquire() {
	switch {
	case c.phase != waiting:
	case c.known > 0:
		c.lateAcquire |= placed
	default:
		c.lateAcquire |= unplaced
	}
}

func acquireArrives(as acquireCopies) func(r *rules, s *state, o owner) bool {
	return func(r *rules, s *state, o owner) bool {
		c := &s.claims[o]
		if c.lateAcquire&as == 0 {
			return false
		}
		place := c.known
		if as == unplaced {
			place = 0
		}
		r.acquire(s, o, true, place, r.floor(c)) // it was sent before the clock was set back
		return true
	}
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

// crash keeps the commands on the wire.
func (r *rules) crash(s *state, o owner) bool {
	in := s.of(o)
	if in != &s.instances[o] || in.dead {
		return false
	}
	busy := func(c claim) bool { return c.phase != free && c.phase != ended }
	if !slices.ContainsFunc(s.claimsOf(o), busy) || !modeltest.Spend(&s.budget.crashes) {
		return false
	}
	for i := range s.claimsOf(o) {
		c := &s.claimsOf(o)[i]
		c.sendAcquire()
		c.lateRelease = c.lateRelease || c.phase == releasing
	}
	*in = instance{dead: true}
	return true
}

func (r *rules) flush(s *state, o owner) bool {
	if o != 0 || !modeltest.Spend(&s.budget.flushes) {
		return false
	}
	for i := range s.claims {
		c := &s.claims[i]
		c.bereft = c.phase == holding || c.reply == held
		c.holds, c.queued, c.tombstone = false, false, false
	}
	s.ahead, s.fence, s.known, s.flushed = 0, 0, false, true
	s.resting, s.owed = false, false
	s.excused = s.excused || s.now < s.highest()
	return true
}

// stepBack sets Redis's clock back, at any time: also under a hold, under which fences are handed over that Redis
// does not know. Expiries are of the clock, too: what has expired, and is there still, has not.
func (r *rules) stepBack(s *state, o owner) bool {
	if o != 0 || s.water > 0 || !modeltest.Spend(&s.budget.steps) {
		return false
	}
	s.water = max(s.now, s.ahead, s.highest()) + gap
	s.now, s.known = 1, false
	for i := range s.claims {
		s.claims[i].unlapse()
	}
	for i := range s.instances {
		in := &s.instances[i]
		in.old, in.high = in.spoke, false
	}
	return true
}

// unlapse is what a step back does to a holder that has expired. One whose caller got the answer too late was released
// by it, which is no step of its own.
func (c *claim) unlapse() {
	switch {
	case !c.lapsed:
	case c.phase == ended:
		c.again = true
	case c.phase == waiting && c.known == 0 && !c.inDoubt:
		c.holds = false
	}
	c.lapsed = false
}

// hears is an answer that carries the time of Redis's clock.
func (s *state) hears(o owner) {
	in := s.of(o)
	in.spoke, in.high, in.old = true, in.high || in.old, false
}

func (r *rules) catchUp(s *state, o owner) bool {
	high := max(s.ahead, s.water, s.highest())
	if o != 0 || s.now >= high {
		return false
	}
	s.now = high + gap
	return true
}

// highest is the highest fence of all owners.
func (s *state) highest() uint8 {
	high := s.top
	for i := range s.claims {
		high = max(high, s.claims[i].got)
	}
	return high
}

// endRest is the end of a MinHold.
func (r *rules) endRest(s *state, o owner) bool {
	if o != 0 || !s.owed && !s.resting {
		return false
	}
	s.owed, s.resting = false, false
	return true
}

// revoke is a round trip of an operator.
func (r *rules) revoke(s *state, o owner) bool {
	c := &s.claims[o]
	if !c.holds || c.revoked || !modeltest.Spend(&s.budget.revokes) {
		return false
	}
	c.revoked = true
	return true
}

// askRevoked is for a grant that was revoked before its instance asked: the instance learns that the claim
// has ended, gives it back, and uses another claim.
func (r *rules) askRevoked(s *state, o owner) bool {
	c := &s.claims[o]
	if !s.giveUp(o, releasing) {
		return false
	}
	r.watch.note(s, o, command{what: asks, queue: true, unsubscribed: s.of(o).mute})
	c.inDoubt = true
	return true
}
