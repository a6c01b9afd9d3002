package model

import (
	"cmp"
	"math/bits"
	"slices"
)

const (
	instances = 3
	slots     = 2 // claims of one instance of which anything is left anywhere
)

// state is everything that matters: the instances with their claims, what of these is
// on the wire, and what Redis knows of them. Nothing refers to an instance by number, so
// that instances can be swapped.
type state struct {
	instances [instances]instance

	// Redis. Who holds the lock and who is queued is noted at the claims. Fences and the
	// clock are ranks: of their values only the order matters.
	now   uint8 // TIME
	last  uint8 // the highest fence that Redis remembers
	fence uint8 // @fence of the hold

	top    uint8 // the highest fence under which any work has begun
	calls  uint8 // that may yet come
	faults uint8 // that may yet happen
}

// instance is a Guard, and its contender for the one key there is.
type instance struct {
	dead   bool  // the process, not its commands and not what Redis knows of it
	line   uint8 // callers that wait for the claim or tenure before them
	claims [slots]claim
}

// claim is one owner.
type claim struct {
	// The instance's side.
	phase  phase
	reply  reply // on its way to the instance
	direct bool  // asks without a place in the queue: its messages do not flow yet
	known  bool  // the instance knows the claim's place
	front  bool  // it knows that it is first, or a message that says so is on its way
	told   bool  // it is to ask at once, or a message that says so is on its way
	blind  bool  // such messages were lost
	bury   bool  // some acquire of it was not answered
	again  bool  // its release was sent before, and not answered
	fence  uint8 // of the lease that it serves

	// On the wire, and not waited for.
	strayAcquire acquire
	strayRelease release

	// Redis's side.
	holds    bool
	granted  bool // holds, for an ack window
	queued   bool
	buried   bool // has a tombstone
	released bool // last names it
	place    uint8
}

// phase is what an instance is doing with a claim.
type phase uint8

const (
	free      phase = iota // the slot is
	asking                 // the acquire of a first caller is on the wire
	waiting                // a pursuit: waits for a message, or for its timer
	heir                   // a next-claim: the release that carries it is on the wire
	holding                // a tenure that is trusted: work runs
	lost                   // a tenure past its deadline: its work may still run
	releasing              // a release or an abandonment is on the wire
	over                   // the instance is done with it
)

// reply is an answer on its way.
type reply uint8

const (
	none reply = iota
	held
	heldLate   // held, but what it promised is over
	busyFront  // queued in front
	busyBehind // queued
	busy       // not queued
	withdrawn

	// To a release that carried a next-claim.
	nextHeld
	nextHeldLate
	nextFront
	nextBehind
	nextUnknown // says nothing of it
)

// acquire is what a command on the wire says.
type acquire uint8

const (
	noAcquire acquire = iota
	direct            // do not queue me
	queue             // queue me
	placed            // queue me at my place
)

// release is what a command on the wire says: a set.
type release uint8

const (
	sent release = 1 << iota
	bury
	next // with the other claim of the instance as next-claim
)

// owner names a claim.
type owner int8

const nobody owner = -1

func (o owner) instance() int  { return int(o) / slots }
func (o owner) partner() owner { return o ^ 1 }

func (s *state) claim(o owner) *claim {
	return &s.instances[o.instance()].claims[int(o)%slots]
}

func (s *state) instance(o owner) *instance { return &s.instances[o.instance()] }

// holder is who Redis says holds the lock.
func (s *state) holder() owner {
	for o := range owner(instances * slots) {
		if s.claim(o).holds {
			return o
		}
	}
	return nobody
}

// tidy forgets what makes no difference any more, so that equal futures are equal
// states, and frees slots.
func (s *state) tidy() {
	for o := range owner(instances * slots) {
		c, other := s.claim(o), s.claim(o.partner())
		if s.instance(o).dead && c.phase != free {
			c.phase, c.reply = over, none
		}
		if c.phase != asking && c.phase != waiting && c.phase != heir {
			c.direct, c.known, c.front, c.told, c.blind = false, false, false, false, false
		}
		if c.phase == over || c.phase == free {
			c.bury, c.again = false, false
		}
		if c.phase != holding && !c.holds {
			c.fence = 0
		}
		if !c.holds && (c.buried || c.strayAcquire == noAcquire) {
			c.strayRelease &^= next // only a holder's release minds the next claim
		}
		if c.strayRelease&next == 0 && !c.holds && !c.queued && (c.buried || c.strayAcquire == noAcquire) {
			c.strayRelease = 0
		}
		c.released = c.released && c.strayAcquire != noAcquire
		c.buried = c.buried && (c.strayAcquire != noAcquire || other.strayRelease&next != 0)
		if !c.queued && !c.known && c.strayAcquire != placed {
			c.place = 0
		}
		if c.phase == over && !c.holds && !c.queued && c.strayAcquire == noAcquire && c.strayRelease == 0 &&
			other.strayRelease&next == 0 {
			*c = claim{}
		}
	}
	s.rankPlaces()
	s.rankFences()
}

func (s *state) rankPlaces() {
	var seen uint64
	for o := range owner(instances * slots) {
		seen |= 1 << s.claim(o).place
	}
	seen &^= 1 // 0 is no place
	for o := range owner(instances * slots) {
		if c := s.claim(o); c.place > 0 {
			c.place = rank(seen, c.place)
		}
	}
}

func (s *state) rankFences() {
	if s.holder() == nobody {
		s.fence = 0
	}
	seen := uint64(1)<<s.now | 1<<s.last | 1<<s.top | 1<<s.fence | 1
	for o := range owner(instances * slots) {
		seen |= 1 << s.claim(o).fence
	}
	seen &^= 1
	for _, n := range []*uint8{&s.now, &s.last, &s.top, &s.fence} {
		*n = rank(seen, *n)
	}
	for o := range owner(instances * slots) {
		c := s.claim(o)
		c.fence = rank(seen, c.fence)
	}
}

// rank is how many of the values in seen are up to n.
func rank(seen uint64, n uint8) uint8 {
	return uint8(bits.OnesCount64(seen << (63 - n))) //nolint:gosec // at most 64
}

// print is a fingerprint of the state that is the same however instances and slots are
// numbered.
func (s *state) print() uint64 {
	var ins [instances][slots]uint64
	for i := range s.instances {
		in := &s.instances[i]
		for k := range in.claims {
			ins[i][k] = in.claims[k].pack()
		}
		slices.Sort(ins[i][:])
		ins[i][0] |= uint64(in.line)<<58 | bit(in.dead)<<62
	}
	slices.SortFunc(ins[:], func(a, b [slots]uint64) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	h := uint64(s.now) | uint64(s.last)<<8 | uint64(s.fence)<<16 | uint64(s.top)<<24 |
		uint64(s.calls)<<32 | uint64(s.faults)<<40
	for i := range ins {
		for _, word := range ins[i] {
			h = mix(h ^ word)
		}
	}
	return mix(h)
}

// mix spreads what is in a word over all of it, one to one.
func mix(h uint64) uint64 {
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	h = (h ^ h>>29) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// pack puts a claim into 58 bits.
func (c *claim) pack() uint64 {
	flags := bit(c.direct) | bit(c.known)<<1 | bit(c.front)<<2 | bit(c.told)<<3 | bit(c.blind)<<4 |
		bit(c.bury)<<5 | bit(c.again)<<6 | bit(c.holds)<<7 | bit(c.granted)<<8 | bit(c.queued)<<9 |
		bit(c.buried)<<10 | bit(c.released)<<11
	return flags | uint64(c.phase)<<12 | uint64(c.reply)<<16 | uint64(c.fence)<<20 |
		uint64(c.strayAcquire)<<26 | uint64(c.strayRelease)<<28 | uint64(c.place)<<32
}
