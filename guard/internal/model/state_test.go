package model

import "github.com/redlatch/redlatch/guard/internal/model/explore"

const (
	instances = 3
	slots     = 2 // claims of one instance of which anything is left anywhere
	owners    = instances * slots
)

// state is everything that matters: the instances with their claims, what of these is
// on the wire, and what Redis knows of them. Fences, the clock and places in the queue
// are ranks: of their values only the order counts.
type state struct {
	instances [instances]instance
	claims    [owners]claim // two for each instance

	// Redis. Who holds the lock and who is queued is noted at the claims.
	now   uint8 // TIME
	last  uint8 // the highest fence that Redis remembers
	fence uint8 // @fence of the hold
	ahead bool  // @ahead: when that was minted, the clock was behind it

	resting   bool  // @done: nobody holds the lock, and its MinHold is not over
	revoked   bool  // @revoked: nobody is to renew the hold, nor to confirm it
	named     uint8 // the fence in a command of who steps in, that may arrive once more
	lateBreak bool  // that is a break, else a revocation

	budget budget // what may still happen

	// What the properties look at, and nobody knows.
	top     uint8 // the highest fence under which any work has begun
	untold  uint8 // the fence of which a release that breaks its rule did not tell last
	flushed bool  // Redis has lost its data, tombstones included
	excused bool  // a fault left Redis no way to know how high fences are
	owed    bool  // somebody was promised that the lock stays taken
	broken  property
}

// budget bounds a run.
type budget struct {
	calls    uint8 // of WithLock
	silences uint8 // commands that go unanswered
	crashes  uint8 // of a process
	flushes  uint8 // Redis loses all its data
	steps    uint8 // of Redis's clock, back
	skips    uint8 // of a live claim, because its instance did not seem to listen
	keeps    uint8 // work with a MinHold
	revokes  uint8 // somebody revokes a hold
	breaks   uint8 // somebody breaks one
	mutes    uint8 // an instance loses its subscription
}

// instance is a Guard, and its contender for the one key there is.
type instance struct {
	dead bool  // the process, not its commands and not what Redis knows of it
	line uint8 // callers that wait
	mute bool  // no message reaches it
}

// claim is one owner.
type claim struct {
	// The instance's side.
	phase   phase
	reply   reply // on its way to the instance
	got     uint8 // the fence in that reply
	ahead   bool  // that, or the lease's, is ahead of Redis's clock: Redis said so
	fence   uint8 // of the lease; before there is one, what its fence must be above
	known   uint8 // the place that the instance knows of; 0 = none
	told    bool  // a message to ask is on its way
	direct  bool  // its first caller does not wait
	inDoubt bool  // an acquire was not answered
	again   bool  // a release was not answered
	bereft  bool  // the grant is one that Redis has lost; nobody knows
	keeps   bool  // its work has a MinHold
	ended   bool  // somebody broke its hold

	// Commands on the wire that nobody waits for. They may arrive any number of times.
	lateAcquire acquireCopies
	lateRelease bool

	// Redis's side.
	holds     bool
	granted   bool // holds, until the ack window is over
	queued    bool
	place     uint8
	mute      bool // its place says that it has no subscription
	tombstone bool // has a tombstone
	released  bool // last names it
}

// phase is what an instance is doing with a claim.
type phase uint8

const (
	free      phase = iota // the slot is
	waiting                // asks, now and then, until it is granted
	holding                // a grant that is trusted: work runs
	lost                   // a grant that is not trusted any more: its work may still run
	gone                   // the same, and Redis said that it does not know it
	releasing              // a release is on the wire
	over                   // the instance is done with it
)

// reply is an answer on its way. Only those that say "held" are worth a state.
type reply uint8

const (
	none reply = iota
	held
	heldLate // what it promised is over
)

// acquireCopies is a set.
type acquireCopies uint8

const (
	unplaced acquireCopies = 1 << iota // of before the instance knew its place
	placed                             // with the place that it knows
)

// owner names a claim.
type owner int8

const nobody owner = -1

func (o owner) other() owner { return o ^ 1 }

func (s *state) of(o owner) *instance { return &s.instances[o/slots] }

// holder is who holds the lock in Redis.
func (s *state) holder() owner {
	for o := range s.claims {
		if s.claims[o].holds {
			return owner(o)
		}
	}
	return nobody
}

// first is who stands first in the queue.
func (s *state) first() owner {
	first := nobody
	for o := range s.claims {
		c := &s.claims[o]
		if c.queued && (first == nobody || c.place < s.claims[first].place) {
			first = owner(o)
		}
	}
	return first
}

// active is the claim or grant behind which callers of o's instance stand in line.
func (s *state) active(o owner) owner {
	for _, o := range [slots]owner{o, o.other()} {
		switch s.claims[o].phase {
		case waiting, holding:
			return o
		}
	}
	return nobody
}

// tidy forgets what makes no difference any more, so that states with the same future are
// the same.
func (s *state) tidy(r *rules) {
	for i := range s.claims {
		c := &s.claims[i]
		if s.of(owner(i)).dead && c.phase != free {
			c.phase, c.reply = over, none
		}
		s.tidyInstance(r, c)
		s.tidyRedis(r, c)
	}
	if s.holder() == nobody {
		s.revoked = false
	}
	if !r.stepsInOnAny && (s.holder() == nobody || s.named != s.fence) {
		s.named = 0 // no hold has that fence again
	}
	s.rankPlaces()
	s.rankFences()
}

func (s *state) tidyInstance(r *rules, c *claim) {
	if c.phase != waiting {
		c.known, c.told, c.direct = 0, false, false
	}
	// Who has a pulse may ask at any time, told or not: unless a rule is broken, messages
	// make no difference.
	c.ended = c.ended && c.phase == waiting
	c.told = c.told && (r.hasNoPulse || r.trustsMessages)
	if c.reply == heldLate && c.phase == waiting && !r.trustsLateAnswers {
		c.reply = none // it asks again
	}
	if c.reply != held && !r.trustsLateAnswers && !c.told {
		c.got = 0
	}
	if c.phase != holding && c.reply == none {
		c.bereft, c.ahead = false, false
	}
	c.ahead = c.ahead && !r.handsOnAhead
	if c.phase != releasing && c.phase != over {
		c.again = false
	}
	behind := c.phase < holding && s.budget.steps == 0 && s.now >= s.top // any fence will be above it
	ended := c.phase > holding && !c.holds && !c.queued && c.lateAcquire == 0
	if behind || ended {
		c.fence = 0
	}
}

func (s *state) tidyRedis(r *rules, c *claim) {
	done := c.phase == over && !c.holds && !c.queued
	if !c.queued {
		c.place, c.mute = 0, false
	}
	c.granted = c.granted && r.grantHasNoEnd // else it may end at any time, as may any hold
	if c.lateAcquire != 0 && c.known == 0 {
		c.lateAcquire = unplaced
	}
	if c.tombstone && s.budget.flushes == 0 && !r.overForgetsTombstones {
		c.lateAcquire = 0
	}
	if done && c.lateAcquire == 0 && !r.releaseFreesAnyones {
		c.lateRelease = false
	}
	if c.phase == over && !c.lateRelease {
		c.inDoubt, c.fence = false, 0
	}
	c.released = c.released && c.lateAcquire != 0
	c.tombstone = c.tombstone && c.lateAcquire != 0
	if done && c.lateAcquire == 0 && !c.lateRelease {
		*c = claim{}
	}
	if !c.holds && c.phase > holding && c.lateAcquire == 0 && !r.lostKeeps {
		c.keeps = false
	}
}

func (s *state) rankPlaces() {
	var seen uint64
	for i := range s.claims {
		seen |= 1<<s.claims[i].known | 1<<s.claims[i].place
	}
	for i := range s.claims {
		c := &s.claims[i]
		c.known, c.place = explore.Rank(seen, c.known), explore.Rank(seen, c.place)
	}
}

// gap is how far fences are apart: there is always something between.
const gap = 4

func (s *state) rankFences() {
	if s.holder() == nobody {
		s.fence, s.ahead = 0, false
	}
	seen := uint64(1)<<s.named | 1<<s.now | 1<<s.last | 1<<s.fence | 1<<s.top | 1<<s.untold
	for i := range s.claims {
		seen |= 1<<s.claims[i].fence | 1<<s.claims[i].got
	}
	s.now, s.last = explore.Rank(seen, s.now)*gap, explore.Rank(seen, s.last)*gap
	s.fence, s.top = explore.Rank(seen, s.fence)*gap, explore.Rank(seen, s.top)*gap
	s.untold, s.named = explore.Rank(seen, s.untold)*gap, explore.Rank(seen, s.named)*gap
	for i := range s.claims {
		c := &s.claims[i]
		c.fence, c.got = explore.Rank(seen, c.fence)*gap, explore.Rank(seen, c.got)*gap
	}
}
