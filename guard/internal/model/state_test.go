package model

import (
	"math"
	"slices"

	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

const (
	owners = 6 // claims of which anything is left anywhere
	slots  = 2 // of these in a line of an instance
	gap    = 8 // how far fences are apart: there is always something between
)

// state is everything that matters: the instances with their claims, what of these is on the
// wire, and what Redis knows of them. Fences, the clock and places in the queue are ranks: of
// their values only the order counts.
type state struct {
	instances [owners]instance
	claims    [owners]claim

	// Redis. Holders and queue are noted at the claims.
	now     uint8 // TIME
	ahead   uint8 // the highest fence that :ended remembers: it is ahead of the clock
	fence   uint8 // the highest of those inside
	resting bool  // no claim holds, and a MinHold has not ended

	// Of use for the replay only: the queue has other things in it; one of these waits in front, and is dead.
	cruft, ghosts bool

	budget budget // what may still happen

	// What the properties look at, and no instance knows.
	top     uint8 // the highest fence under which any work has begun
	writer  uint8 // the same of exclusive work
	water   uint8 // the high water: above all fences from before the clock was set back; 0: it has caught up
	known   bool  // since then, a process that knew the old clock has told Redis of the highest fence
	flushed bool  // Redis has lost its data, tombstones included
	excused bool  // a fault left Redis no way to know how high fences are
	owed    bool  // a release asked for a MinHold
	broken  modeltest.Property
}

// budget bounds a search.
type budget struct {
	kinds    kinds // of claims, each of a process of its own; 0: callers in lines want to be alone
	calls    uint8 // of WithLock
	silences uint8 // commands that go unanswered
	crashes  uint8 // of a process
	flushes  uint8 // Redis loses all its data
	steps    uint8 // of Redis's clock, back
	skips    uint8 // of a live claim, because its instance did not seem to listen
	keeps    uint8 // work with a MinHold
	revokes  uint8 // an operator revokes a hold
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

// instance is a Guard, as far as the one key goes.
type instance struct {
	dead bool  // the process, not its commands and not what Redis knows of it
	line uint8 // callers that wait
	mute bool  // no message reaches it

	spoke bool // it knows a time of Redis's clock
	old   bool // a time from before the clock was set back, and it did not notice that
	high  bool // it did: it knows the high water
}

// entry is what Redis knows of a claim.
type entry struct {
	mode      mode
	holds     bool
	lapsed    bool  // it has expired, and the hash has it
	outran    bool  // when its fence was minted, the clock was before it
	revoked   bool  // no renewal or repeated claim may confirm the hold
	noted     uint8 // its fence
	place     uint8 // in the queue
	tombstone bool
	marked    bool // its place says that it has no subscription
}

// claim is one owner.
type claim struct {
	entry

	// The instance's side.
	phase   phase
	reply   reply // on its way to the instance
	got     uint8 // the fence in that reply
	ahead   bool  // that, or the lease's, is ahead of Redis's clock: Redis said so
	fence   uint8 // of the lease, hand-overs included; before there is one, what its fence must be above
	grant   uint8 // the fence that a renewal names
	known   uint8 // the place that the instance knows of; 0 = none
	direct  bool  // its first caller does not wait
	inDoubt bool  // an acquire was not answered
	again   bool  // a release was not answered
	bereft  bool  // Redis has lost the grant, and no instance knows
	keeps   bool  // its work has a MinHold

	// Commands on the wire whose callers have left. They may arrive any number of times.
	lateAcquire acquireCopies
	lateRelease bool
	lateRenew   bool

	// Redis's side, besides the entry.
	granted bool // and its owner has not asked yet
	low     bool // when its fence was minted, no process had told Redis of the high water, which is above it
	queued  bool
}

// phase is what an instance is doing with a claim.
type phase uint8

const (
	free      phase = iota // the slot is
	waiting                // asks, now and then, until it is granted
	holding                // a grant that is trusted: work runs
	lost                   // a grant that is not trusted any more: its work may still run
	gone                   // the same, and Redis said that it does not know it
	releasing              // its work has ended, and a release is sent
	ended                  // the instance is done with it
)

// reply is an answer on its way. Only those that say "held" are worth a state.
type reply uint8

const (
	none reply = iota
	held
	heldLate // what it promised has ended
	heldLow  // its fence is below the high water: the instance asks again
)

// acquireCopies is a set.
type acquireCopies uint8

const (
	unplaced acquireCopies = 1 << iota // of before the instance knew its place
	placed                             // with the place that it knows
)

// owner names a claim.
type owner int8

const noOwner owner = -1

// other is the other claim of an instance with a line.
func (o owner) other() owner { return o ^ 1 }

func (c *claim) limit() int { return c.mode.limit() }

// lines reports whether instances have lines of callers, and two claims each. Else each claim is of an
// instance of its own.
func (s *state) lines() bool { return s.budget.kinds == 0 }

func (s *state) of(o owner) *instance {
	if s.lines() {
		o -= o % slots
	}
	return &s.instances[o]
}

// claimsOf are those of the instance whose first one is o.
func (s *state) claimsOf(o owner) []claim {
	if s.lines() {
		return s.claims[o : o+slots]
	}
	return s.claims[o : o+1]
}

// holder is the claim that is inside alone.
func (s *state) holder() owner {
	return owner(slices.IndexFunc(s.claims[:], func(c claim) bool { return c.holds }))
}

// inside is how many the hash has, and the strictest limit.
func (s *state) inside() (n, strictest int) {
	if s.resting {
		return 1, 1
	}
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

// first is the first owner in the queue.
func (s *state) first() owner {
	first := noOwner
	for o := range s.claims {
		c := &s.claims[o]
		if c.queued && (first == noOwner || c.place < s.claims[first].place) {
			first = owner(o)
		}
	}
	return first
}

// active is the claim or grant for which callers of o's instance wait.
func (s *state) active(o owner) owner {
	for _, is := range [slots]owner{o, o.other()} {
		if p := s.claims[is].phase; (p == waiting || p == holding) && (is == o || s.lines()) {
			return is
		}
	}
	return noOwner
}

// tidy forgets what makes no difference any more, so that states with the same future are
// the same.
func (s *state) tidy(r *rules) {
	for i := range s.claims {
		c, in := &s.claims[i], s.of(owner(i))
		if in.dead && c.phase != free {
			c.phase, c.reply = ended, none
		}
		s.tidyInstance(r, c)
		s.tidyRedis(r, c)
		if !s.lines() {
			in.mute = in.mute && (c.phase == waiting || c.lateAcquire != 0)
			if c.phase == free {
				*in = instance{} // the next one is another process
			}
		}
	}
	if s.holder() == noOwner {
		s.fence = 0
	}
	if s.ahead <= s.now {
		s.ahead = 0
	}
	s.tidyClocks()
	s.rank()
}

// tidyClocks forgets the old clock once the new one has caught up.
func (s *state) tidyClocks() {
	if s.now > s.water && !slices.ContainsFunc(s.claims[:], func(c claim) bool { return c.low }) {
		s.water, s.known = 0, false
	}
	for i := range s.instances {
		in := &s.instances[i]
		in.old, in.high = in.old && s.water > 0, in.high && s.water > 0
		in.spoke = in.spoke && s.budget.steps > 0
	}
}

func (s *state) tidyInstance(r *rules, c *claim) {
	if c.phase != waiting {
		c.known, c.direct = 0, false
	}
	if c.reply == heldLate && c.phase == waiting && !r.trustsLateAnswers {
		c.reply = none // it asks again
	}
	if c.reply == none || c.reply == heldLow {
		c.got = 0
	}
	if c.phase != holding && (c.reply == none || c.reply == heldLow) {
		c.bereft, c.ahead = false, false
	}
	c.ahead = c.ahead && s.lines() && !r.handsOnAhead
	if c.phase != releasing && c.phase != ended {
		c.again = false
	}
	behind := c.phase < holding && s.budget.steps == 0 && s.water == 0 && s.now >= s.top // any fence will be above it
	ended := c.phase > holding && !c.holds && !c.queued && c.lateAcquire == 0
	if behind || ended {
		c.fence = 0
	}
}

func (s *state) tidyRedis(r *rules, c *claim) {
	if !c.holds {
		c.granted, c.lapsed, c.noted, c.outran, c.revoked = false, false, 0, false, false
		c.low = c.low && (c.phase == holding || c.reply != none)
	}
	c.granted = c.granted && r.grantHasNoEnd              // else it may end at any time, as may any hold
	c.outran = c.outran && (s.lines() || c.noted > s.now) // else only its expiry goes by that
	if !c.queued {
		c.place, c.marked = 0, false
	}
	if c.lateAcquire != 0 && c.known == 0 {
		c.lateAcquire = unplaced
	}
	if c.tombstone && s.budget.flushes == 0 && !r.endForgetsTombstones {
		c.lateAcquire = 0
	}
	done := c.phase == ended && !c.holds && !c.queued && c.lateAcquire == 0
	if done && !r.releaseFreesAnyones {
		c.lateRelease = false
	}
	absent := !c.holds && !c.queued && c.lateAcquire == 0 // for ever
	if done || c.phase > holding && absent {
		c.lateRenew = false
	}
	if absent || c.phase != holding && !c.lateRenew {
		c.grant = 0
	}
	if c.phase == ended && !c.lateRelease {
		c.inDoubt, c.fence = false, 0
	}
	c.tombstone = c.tombstone && c.lateAcquire != 0
	if done && !c.lateRelease && !c.lateRenew {
		*c = claim{}
	}
	if !c.holds && c.phase > holding && c.lateAcquire == 0 && !r.lostKeeps {
		c.keeps = false
	}
}

// rank puts ranks in the place of fences and places.
func (s *state) rank() {
	var places [2 * owners]*uint8
	var fences [6 + 4*owners]*uint8
	copy(fences[:], []*uint8{&s.now, &s.ahead, &s.fence, &s.top, &s.writer, &s.water})
	for i := range s.claims {
		c := &s.claims[i]
		places[2*i], places[2*i+1] = &c.known, &c.place
		copy(fences[6+4*i:], []*uint8{&c.fence, &c.got, &c.noted, &c.grant})
	}
	modeltest.Rank(1, places[:]...)
	modeltest.Rank(gap, fences[:]...)
}

// print is a fingerprint of the state that is the same however instances and their
// claims are numbered. That two states share one is not impossible, but with 64 bits
// for a few million states less likely than one in a million.
func (s *state) print() uint64 {
	var each [owners]uint64
	for i := range each {
		in := s.of(owner(i))
		each[i] = modeltest.Mix(s.claims[i].print() ^ (uint64(in.line)<<5 | bits(in.mute, in.dead, in.spoke, in.old, in.high)))
	}
	for i := 0; s.lines() && i < owners; i += slots {
		a, b := each[i], each[i+1]
		each[i], each[i+1] = modeltest.Mix(min(a, b))^max(a, b), 0
	}
	slices.Sort(each[:])
	b := &s.budget
	h := modeltest.Pack(s.now, s.ahead, s.fence, s.top, s.writer, s.water)
	h = modeltest.Mix(h) ^ modeltest.Pack(b.calls, b.silences, b.crashes|b.flushes<<2|b.steps<<4|b.skips<<6, b.keeps|b.mutes<<4, b.revokes)
	h = modeltest.Mix(h) ^ bits(s.resting, s.flushed, s.excused, s.owed, s.known, s.broken != "")
	for _, word := range each {
		h = modeltest.Mix(h) ^ word
	}
	return modeltest.Mix(h)
}

func (c *claim) print() uint64 {
	h := modeltest.Pack(uint8(c.mode)<<4|uint8(c.phase), uint8(c.reply), c.got, c.fence, c.grant, c.noted, c.known<<4|c.place, uint8(c.lateAcquire))
	return modeltest.Mix(modeltest.Mix(h) ^ bits(
		c.ahead, c.direct, c.inDoubt, c.again, c.bereft, c.keeps, c.lateRelease, c.lateRenew,
		c.holds, c.granted, c.lapsed, c.outran, c.low, c.revoked, c.queued, c.marked, c.tombstone,
	))
}

func bits(all ...bool) (h uint64) {
	for _, b := range all {
		h = h<<1 | modeltest.Bit(b)
	}
	return h
}
