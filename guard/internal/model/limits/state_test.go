package limits

import (
	"math"
	"math/bits"

	"github.com/redlatch/redlatch/guard/internal/model/explore"
)

// owners is how many claims there may be anything left of.
const owners = 4

// state is everything that matters: the claims, what of each is on the wire, and what Redis
// knows of it. Fences, the clock and places are ranks: of their values only the order counts.
type state struct {
	claims [owners]claim

	// Redis. Who is inside and who is queued is noted at the claims.
	now    uint8 // TIME
	last   uint8 // the highest fence that :last remembers
	fence  uint8 // @fence of the hash, the highest of those inside
	cruft  bool  // the queue has other things in it: of use for the replay only
	ghosts bool  // one of these waits in front, and is dead
	budget budget

	// What the properties look at, and nobody knows.
	top     uint8 // the highest fence under which any work has begun
	writer  uint8 // the same of work that tolerates nobody
	untold  uint8 // the fence that a command that breaks its rule did not tell :last
	flushed bool  // Redis has lost its data, tombstones included
	excused bool  // a fault left Redis no way to know how high fences are
	broken  property
}

// budget bounds a run.
type budget struct {
	calls    uint8 // of WithLock
	kinds    kinds // what they may want
	silences uint8 // commands that go unanswered
	crashes  uint8 // of a process
	flushes  uint8 // Redis loses all its data
	steps    uint8 // of Redis's clock, back
	skips    uint8 // of a live claim, because its instance did not seem to listen
	mutes    uint8 // an instance loses its subscription
}

// mode is what a claim tolerates.
type mode uint8

const (
	exclusive mode = iota
	two            // Limit(2)
	shared
)

// kinds is a set of modes, and whether claims may be those of callers that do not wait.
type kinds uint8

const (
	alone   = kinds(1 << exclusive)
	pairs   = kinds(1 << two)
	readers = kinds(1 << shared)
	hasty   = kinds(1 << 7)
	all     = alone | pairs | readers | hasty
)

// limit is how many holders a claim puts up with, itself included.
func (m mode) limit() int {
	switch m {
	case two:
		return 2
	case shared:
		return math.MaxInt
	}
	return 1
}

// claim is one owner, and the instance that it is made for.
type claim struct {
	mode mode

	// The instance's side.
	phase   phase
	reply   reply // on its way to the instance
	got     uint8 // the fence in that reply
	fence   uint8 // of the hold
	above   uint8 // what its fence must be above: of use for the replay only
	known   uint8 // the place that the instance knows of; 0 = none
	direct  bool  // its caller does not wait
	inDoubt bool  // an acquire was not answered
	again   bool  // a release was not answered
	bereft  bool  // the hold is one that Redis has lost; nobody knows
	dead    bool  // its process crashed
	mute    bool  // no message reaches it

	// Commands on the wire that nobody waits for. They may arrive any number of times.
	lateAcquire acquireCopies
	lateRelease bool
	lateRenew   bool // under the hold's fence

	// Redis's side.
	holds     bool
	granted   bool  // and nobody has asked yet
	lapsed    bool  // its time is over, and the hash has it
	noted     uint8 // its fence there
	queued    bool
	place     uint8
	marked    bool // its place says that it has no subscription
	tombstone bool
	released  bool // :last names it
}

// phase is what an instance is doing with a claim.
type phase uint8

const (
	free      phase = iota // the slot is
	waiting                // asks, now and then, until it gets in
	holding                // believes that it is inside: work runs
	lost                   // believes that no more: its work may still run
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

func (c *claim) limit() int { return c.mode.limit() }

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

// inside is how many the hash has, and the strictest limit.
func (s *state) inside() (n, strictest int) {
	strictest = math.MaxInt
	for o := range s.claims {
		if c := &s.claims[o]; c.holds {
			n++
			strictest = min(strictest, c.limit())
		}
	}
	return n, strictest
}

func (s *state) taken() bool {
	n, _ := s.inside()
	return n > 0
}

// tidy forgets what makes no difference any more, so that states with the same future are
// the same.
func (s *state) tidy(r *rules) {
	for i := range s.claims {
		c := &s.claims[i]
		if c.dead && c.phase != free {
			c.phase, c.reply = over, none
		}
		c.tidyInstance(r)
		c.tidyRedis(s, r)
	}
	s.rankPlaces()
	s.rankFences()
}

func (c *claim) tidyInstance(r *rules) {
	if c.phase != waiting {
		c.known, c.direct = 0, false
		c.mute = c.mute && c.lateAcquire != 0
	}
	if c.reply == heldLate && !r.trustsLateAnswers {
		c.reply = none // it asks again
	}
	if c.reply == none {
		c.got = 0
	}
	if c.phase != holding && c.reply == none {
		c.bereft = false
	}
	if c.phase != releasing && c.phase != over {
		c.again = false
	}
	if !c.holds && c.phase > holding && c.lateAcquire == 0 {
		c.fence = 0
	}
}

func (c *claim) tidyRedis(s *state, r *rules) {
	if !c.holds {
		c.granted, c.lapsed, c.noted = false, false, 0
	}
	c.granted = c.granted && r.grantHasNoEnd // else it may end at any time, as may any hold
	if !c.queued {
		c.place, c.marked = 0, false
	}
	if c.lateAcquire != 0 && c.known == 0 {
		c.lateAcquire = unplaced
	}
	if c.tombstone && s.budget.flushes == 0 && !r.overForgetsTombstones {
		c.lateAcquire = 0
	}
	done := c.phase == over && !c.holds && !c.queued && c.lateAcquire == 0
	if done {
		c.lateRelease = false
	}
	if done || c.phase > holding && !c.holds && c.lateAcquire == 0 {
		c.lateRenew = false
	}
	if c.phase == over && !c.lateRelease {
		c.inDoubt = false
		if !c.lateRenew {
			c.fence = 0
		}
	}
	c.released = c.released && c.lateAcquire != 0
	c.tombstone = c.tombstone && c.lateAcquire != 0
	if done && !c.lateRelease && !c.lateRenew {
		*c = claim{}
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
const gap = 8

// set is one of fences.
type set [4]uint64

func (f *set) add(values ...uint8) {
	for _, v := range values {
		f[v/64] |= 1 << (v % 64)
	}
}

// rank is how many of the values, 0 apart, are up to n.
func (f *set) rank(n uint8) (is uint8) {
	count := bits.OnesCount64(f[n/64]<<(63-n%64)) - int(f[0]&1)
	for _, word := range f[:n/64] {
		count += bits.OnesCount64(word)
	}
	return uint8(count) //nolint:gosec // few
}

func (s *state) rankFences() {
	if !s.taken() {
		s.fence = 0
	}
	var seen set
	seen.add(s.now, s.last, s.fence, s.top, s.writer, s.untold)
	for i := range s.claims {
		c := &s.claims[i]
		seen.add(c.fence, c.got, c.noted)
	}
	for _, v := range []*uint8{&s.now, &s.last, &s.fence, &s.top, &s.writer, &s.untold} {
		*v = seen.rank(*v) * gap
	}
	for i := range s.claims {
		c := &s.claims[i]
		c.fence, c.got, c.noted = seen.rank(c.fence)*gap, seen.rank(c.got)*gap, seen.rank(c.noted)*gap
	}
}
