package model

import "github.com/redlatch/redlatch/guard/internal/model/modeltest"

// rules are those of the protocol. The zero value keeps them all; each field breaks one.
type rules struct {
	// Scripts.
	releaseFreesAnyones  bool // release does not ask whose the lock is
	releaseForgetsFence  bool // release does not remember a fence that is ahead of the clock
	endForgetsTombstones bool // an owner with a tombstone has not ended
	takeBarges           bool // acquire takes a free lock past the queue
	fenceIgnoresEnded    bool // a fence is above the clock, but not above a remembered one
	takeIgnoresClock     bool // a fence is above the remembered one, but not above the clock
	grantHasNoEnd        bool // a grant waits for ever for its owner to ask
	joinForgetsPlace     bool // a claim that was skipped queues last
	joinKeepsWorsePlace  bool // a claim does not get its place back once it is queued after it
	confirmsAnyFence     bool // a hold is confirmed whatever the claim says its fence must be above
	restIsIgnored        bool // release frees a lock whose MinHold has not ended
	lostKeeps            bool // the release of an owner without the lock keeps it taken
	revokedRests         bool // a MinHold keeps a lock taken that was revoked
	confirmsRevoked      bool // acquire confirms a hold that was revoked
	renewsRevoked        bool // renew renews it
	mutesAreDead         bool // a claim that no message reaches is skipped, however lately it asked
	ownLimitIsIgnored    bool // a claim gets in whatever it tolerates itself
	limitInsideIsIgnored bool // a claim gets in whatever those inside tolerate
	liveAreDropped       bool // holders are dropped that have not expired
	hashEndsWithOne      bool // the release of one frees the lock
	fencesRepeat         bool // fences of one instant are the same
	grantForgetsFence    bool // a fence that is ahead of the clock is not remembered
	passesTheQueue       bool // a claim that does not wait gets in before those that wait
	renewalRevives       bool // a renewal brings back a hold that has expired
	renewalIgnoresFence  bool // a renewal does not ask under which fence the owner holds

	// The instance.
	trustsLateAnswers  bool // counts its deadline from the answer, not from the sending
	neverTombstones    bool // forgets that an acquire may still be on its way
	dropsFloor         bool // does not say what the fence of a claim must be above
	ignoresHighWater   bool // works under a fence that is below those from before the clock was set back
	releasesCarelessly bool // does not say how high its fence is where the clock may be below it
	outrunsClock       bool // hands over locally without regard to the clock
	handsOnAhead       bool // hands over locally under a fence that is ahead of the clock
	handsOnKept        bool // hands over locally in spite of a MinHold

	watch *watch // no rule: sees what the scripts are called with
}

// What must not happen.
const (
	nothing modeltest.Property = ""
	mutex   modeltest.Property = "more work on grants that Redis did not lose than one of them tolerates"
	unheld  modeltest.Property = "a caller believes that it holds the lock, and Redis does not know of it, though nothing was lost"
	fences  modeltest.Property = "work begins under a fence that it must not have"
	zombie  modeltest.Property = "Redis keeps a claim that has ended, and nothing is on its way to undo it"
	order   modeltest.Property = "a claim that waits is overtaken, or gets a worse place"
	outcast modeltest.Property = "a claim that waits gets the answer that it has ended"
	early   modeltest.Property = "a caller gets in before a MinHold has ended"
	kept    modeltest.Property = "a lock stays taken after its work, and no MinHold asked for that"
	revived modeltest.Property = "a hold continues although it was revoked, or its time has ended"
	silent  modeltest.Property = "a holder gets the answer that it still holds, and Redis has lost its hold"
	stuck                      = modeltest.Stuck
)

// breaks notes the first property that breaks.
func (s *state) breaks(p modeltest.Property) {
	if s.broken == nothing {
		s.broken = p
	}
}

// work begins the work of the next in line.
func (s *state) work(o owner, fence uint8) {
	c, in := &s.claims[o], s.of(o)
	// A process that did not know the old clock cannot know, and Redis knows once it was told.
	excused := s.excused || c.low && !in.old && !in.high
	n, least, alone := 1, c.limit(), c.limit() == 1
	for i := range s.claims {
		other := &s.claims[i]
		if i == int(o) || other.phase != holding {
			continue
		}
		switch strict := alone || other.limit() == 1; {
		case other.bereft == c.bereft:
			n, least = n+1, min(least, other.limit())
		case strict && c.bereft == (fence > other.fence) && !excused && !other.low:
			// Of two claims that Redis would not have let in together, the claim that it does not know
			// any more has the lower fence.
			s.breaks(fences)
		}
		if fence == other.fence && !excused {
			s.breaks(fences)
		}
	}
	if n > least {
		s.breaks(mutex)
	}
	// Work on a grant that Redis lost may begin after that of a later one. After a fault
	// that is an excuse, only the claims that waited for a lease need a higher fence than its.
	above := s.writer
	if alone {
		above = s.top
	}
	if fence <= c.fence || !excused && (fence == above || fence < above && !c.bereft) {
		s.breaks(fences)
	}
	c.phase, c.reply, c.fence = holding, none, fence
	if s.top = max(s.top, fence); alone {
		s.writer = max(s.writer, fence)
	}
	s.of(o).line--
}

// check looks at what has to hold at any time.
func (s *state) check() {
	if s.resting && !s.owed {
		s.breaks(kept)
	}
	for o := range s.claims {
		c := &s.claims[o]
		// Redis does not know a fence that was handed over.
		misses := !c.holds || c.lapsed || c.noted != c.grant || c.noted != c.fence && !s.lines()
		if c.phase == holding && !c.bereft && misses {
			s.breaks(unheld)
		}
		// A release that was given up unanswered, a clock before the expiry of a hold, a crash and the loss of
		// tombstones are reasons to keep something.
		if c.phase == ended && (c.holds && !c.lapsed || c.queued) && !c.again && !s.of(owner(o)).dead && !s.flushed {
			s.breaks(zombie)
		}
	}
}

// checkOvertaken looks for claims with a better place than the claim that gets in.
func (s *state) checkOvertaken(o owner) {
	by := &s.claims[o]
	for i := range s.claims {
		if c := &s.claims[i]; c.queued && c.phase != ended && (!by.queued || c.place < by.place) {
			s.breaks(order)
		}
	}
}

// quiet says that no caller wants anything.
func (s *state) quiet() bool {
	for o := range s.claims {
		if c := &s.claims[o]; c.phase != free && c.phase != ended || s.of(owner(o)).line > 0 {
			return false
		}
	}
	return true
}
