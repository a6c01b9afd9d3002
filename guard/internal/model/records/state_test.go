package records

import (
	"slices"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

const (
	owners = 3
	probe  = owner(owners) // of the replay only: it asks in the end
)

// state is everything that matters. Fences are numbered as they are handed out; of their values
// only the order counts.
type state struct {
	claims [owners + 1]claim
	budget budget

	// Redis.
	record record
	holder owner // of the lock
	fence  uint8 // the holder's
	places uint8 // the highest place in the queue

	// What an operator saw, and has Redis forget. That command may arrive any number of times.
	seen recordID

	// What the properties look at, and no instance knows.
	top     uint8 // the highest fence
	flushed bool  // Redis has lost its data, tombstones included
	broken  modeltest.Property

	history *event // for the replay
}

// record is the value of the record's key.
type record struct {
	state   recordState
	fence   uint8
	before  uint8 // of the owner that began before, and never finished
	owner   owner // noOwner: an owner whose successor failed
	input   uint8 // 0: any
	touched bool  // by the last command; of use for the replay only
}

// recordID names a record; without a state it names none.
type recordID struct {
	state recordState
	fence uint8
}

type recordState = guardstore.RecordState

const (
	absent = guardstore.RecordNone
	begun  = guardstore.RecordBegun
	done   = guardstore.RecordDone // with the bytes of its owner
	unkept = guardstore.RecordNotKept
)

// outcome is how fn ended; never means that it did not run.
type outcome uint8

const (
	never outcome = iota
	failed
	unsure // it panicked, say: its release names no outcome
	kept
	tooLong
)

// writes is the state of the record that an outcome makes.
func (o outcome) writes() recordState {
	return [...]recordState{never: absent, failed: absent, unsure: absent, kept: done, tooLong: unkept}[o]
}

// budget bounds a run.
type budget struct {
	calls    uint8
	inputs   uint8 // how many different ones; the third is none
	waits    bool  // some callers wait
	silences uint8 // commands that go unanswered
	crashes  uint8
	losses   uint8 // of the record: it expires, or is deleted; or of all data
	forgets  uint8
}

// claim is one call of Once, and its owner.
type claim struct {
	atMostOnce bool
	input      uint8
	waits      bool

	// The instance's side.
	phase   phase
	outcome outcome
	fence   uint8
	inDoubt bool // an acquire was not answered
	again   bool // a release was not answered
	dead    bool

	// Commands on the wire whose callers have left. They may arrive any number of times.
	lateAcquire, lateRelease bool

	// Redis's side.
	place     uint8 // in the queue
	tombstone bool

	// What no instance knows.
	ran     bool // it may run
	cleared bool // Redis knows that it failed, or an operator deleted the record
	known   bool // Redis knows its result
	lost    bool // its lock was lost
	told    bool // its caller was told that it is done
}

// phase is what an instance is doing.
type phase uint8

const (
	free phase = iota
	asking
	running
	finishing
	ended
)

// owner names a claim.
type owner int8

const noOwner owner = -1

func begin(b budget) state {
	return state{budget: b, holder: noOwner, record: record{owner: noOwner}}
}

// front is the first owner in the queue.
func (s *state) front() owner {
	first := noOwner
	for o := range s.claims {
		if c := &s.claims[o]; c.place > 0 && (first == noOwner || c.place < s.claims[first].place) {
			first = owner(o)
		}
	}
	return first
}

// tidy forgets what makes no difference any more.
func (s *state) tidy(r *rules) {
	for i := range s.claims {
		c := &s.claims[i]
		if c.dead && c.phase != free {
			c.phase = ended
		}
		if c.tombstone && s.budget.losses == 0 && !r.tombstonesAreIgnored {
			c.lateAcquire = false
		}
		if c.phase == ended && !c.lateRelease && !c.lateAcquire && s.record.owner != owner(i) && s.holder != owner(i) {
			c.fence, c.inDoubt, c.again = 0, false, false
		}
	}
	if s.record.state == absent {
		s.record = record{owner: noOwner}
	}
	if s.seen.state == absent {
		s.seen = recordID{}
	}
	if s.holder == noOwner {
		s.fence = 0
	}
}

// print is a fingerprint of the state that is the same however claims are numbered.
func (s *state) print() uint64 {
	n := *s
	s = &n
	fences, places := []*uint8{&s.fence, &s.record.fence, &s.record.before, &s.seen.fence}, []*uint8{}
	for i := range s.claims {
		fences, places = append(fences, &s.claims[i].fence), append(places, &s.claims[i].place)
	}
	modeltest.Rank(1, fences...)
	modeltest.Rank(1, places...)
	var each [owners]uint64
	for i := range each {
		c := &s.claims[i]
		h := modeltest.Pack(uint8(c.phase), uint8(c.outcome), c.fence, c.input, c.place)
		flags := uint64(0)
		for _, b := range [...]bool{
			c.atMostOnce, c.waits, c.inDoubt, c.again, c.dead, c.lateAcquire, c.lateRelease, c.tombstone, c.ran, c.cleared, c.known,
			c.lost, c.told,
			s.holder == owner(i), s.record.owner == owner(i),
		} {
			flags = flags<<1 | modeltest.Bit(b)
		}
		each[i] = modeltest.Mix(modeltest.Mix(h) ^ flags)
	}
	slices.Sort(each[:])
	b := &s.budget
	h := modeltest.Pack(uint8(s.record.state), s.record.fence, s.record.before, s.record.input,
		s.fence, uint8(modeltest.Bit(s.flushed)<<1|modeltest.Bit(s.broken != "")), uint8(s.seen.state), s.seen.fence)
	h = modeltest.Mix(h) ^ modeltest.Pack(b.calls, b.silences, b.crashes, b.losses, b.forgets)
	for _, word := range each {
		h = modeltest.Mix(h) ^ word
	}
	return modeltest.Mix(h)
}
