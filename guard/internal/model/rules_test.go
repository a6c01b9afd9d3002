package model

import "github.com/redlatch/redlatch/guard/internal/model/modeltest"

// rules are those of the protocol. The zero value keeps them all; each field breaks one.
type rules struct {
	// Scripts.
	releaseFreesAnyones   bool // release does not ask whose the lock is
	releaseForgetsFence   bool // release does not tell last the lease's fence
	overForgetsReleased   bool // who released last is not over
	overForgetsTombstones bool // who has a tombstone is not over
	takeBarges            bool // acquire takes a free lock past the queue
	takeIgnoresLast       bool // a fence is above the clock, but not above last
	takeIgnoresClock      bool // a fence is above last, but not above the clock
	grantHasNoEnd         bool // a grant waits for ever for its owner to ask
	joinForgetsPlace      bool // a claim that was passed over queues behind everybody
	joinKeepsWorsePlace   bool // a claim does not get its place back once it is queued behind it
	confirmsAnyFence      bool // a hold is confirmed whatever the claim says its fence must be above
	restIsIgnored         bool // release frees a lock whose MinHold is not over
	restGrants            bool // release passes it on
	restForgetsFence      bool // release does not tell last the lease's fence then
	lostKeeps             bool // release of who does not hold the lock keeps it taken
	revokedRests          bool // a MinHold keeps a lock taken that was revoked
	confirmsRevoked       bool // acquire confirms a hold that was revoked
	renewsRevoked         bool // renew renews it
	revokeFrees           bool // who revokes a hold takes it away
	stepsInOnAny          bool // who steps in does not ask under which fence the lock is held
	breakForgetsFence     bool // who breaks a hold does not tell last its fence
	mutesAreDead          bool // a claim that no message reaches is passed over, however lately it asked
	ownLimitIsIgnored     bool // a claim gets in whatever it tolerates itself
	limitInsideIsIgnored  bool // a claim gets in whatever those inside tolerate
	deadAreCounted        bool // holders whose time is over are not dropped
	liveAreDropped        bool // holders are dropped whose time is not over
	hashLivesAsTheLatest  bool // the hash has the ttl of who came last, not the longest one
	hashEndsWithOne       bool // the release of one frees the lock
	fencesRepeat          bool // fences of one instant are the same
	lastMissesFences      bool // a fence is not told to last
	passesTheQueue        bool // who does not wait gets in past who waits
	passesTheFront        bool // who waits gets in past a live claim in front that does not fit
	confirmServesNobody   bool // who is confirmed does not let in who fits beside it
	releaseServesNobody   bool // who leaves does not
	givingUpServesNobody  bool // a claim that gives up its place does not
	renewalRevives        bool // a renewal brings back a hold whose time was over
	renewalIgnoresFence   bool // a renewal does not ask under which fence the owner holds

	// The instance.
	trustsMessages    bool // works on a message, without asking
	trustsLateAnswers bool // counts its deadline from the answer, not from the sending
	neverTombstones   bool // forgets that an acquire may still be on its way
	hasNoPulse        bool // asks again only when it is told to
	dropsFloor        bool // does not say what the fence of a claim must be above
	outrunsClock      bool // hands over locally without regard to the clock
	handsOnAhead      bool // hands over locally under a fence that is ahead of the clock
	handsOnKept       bool // hands over locally what is to stay taken
	endedHasNoDepth   bool // a renewal after the work has ended writes a depth of 0

	watch *watch // no rule: sees what the scripts are called with
}

// What must not happen.
const (
	nothing  modeltest.Property = ""
	mutex    modeltest.Property = "more work on grants that Redis did not lose than one of them tolerates"
	unheld   modeltest.Property = "somebody believes that it is inside, and Redis does not know it, though nothing was lost"
	fences   modeltest.Property = "work begins under a fence that it must not have"
	zombie   modeltest.Property = "Redis keeps a claim that is over, and nothing is on its way to undo it"
	order    modeltest.Property = "a claim that waits is overtaken, or gets a worse place"
	outcast  modeltest.Property = "a claim that waits is told that it is over"
	early    modeltest.Property = "somebody gets in before a MinHold is over"
	kept     modeltest.Property = "a lock stays taken after its work, and no MinHold asked for that"
	revived  modeltest.Property = "a hold that was revoked, or whose time was over, goes on"
	silent   modeltest.Property = "somebody is told that it holds on, and Redis has lost its hold"
	astray   modeltest.Property = "somebody steps in on a hold that was not meant"
	vain     modeltest.Property = "a claim that asks is kept waiting, and nobody is there who minds it (costs waiting only)"
	unserved modeltest.Property = "whoever is in front and fits is not let in by a command that should (costs waiting only)"
	stuck                       = modeltest.Stuck
)

// breaks notes the first property that breaks.
func (s *state) breaks(p modeltest.Property) {
	if s.broken == nothing {
		s.broken = p
	}
}

// work begins the work of the next in line.
func (s *state) work(o owner, fence uint8) {
	c := &s.claims[o]
	n, least, alone := 1, c.limit(), c.limit() == 1
	for i := range s.claims {
		other := &s.claims[i]
		if i == int(o) || other.phase != holding {
			continue
		}
		switch strict := alone || other.limit() == 1; {
		case other.bereft == c.bereft:
			n, least = n+1, min(least, other.limit())
		case strict && c.bereft == (fence > other.fence) && !s.excused:
			// Of two that Redis would not have let in together, the one that it does not know
			// any more has the lower fence.
			s.breaks(fences)
		}
		if fence == other.fence && !s.excused {
			s.breaks(fences)
		}
	}
	if n > least {
		s.breaks(mutex)
	}
	// Work on a grant that Redis lost may begin after that of a later one. After a fault
	// that is an excuse, only those who waited behind a lease need a higher fence than it.
	above := s.writer
	if alone {
		above = s.top
	}
	if fence <= c.fence || !s.excused && (fence == above || fence < above && !c.bereft) {
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
		// A fence that was handed over is one that Redis does not know.
		misses := !c.holds || c.lapsed || c.noted != c.grant || c.noted != c.fence && !s.lines()
		if c.phase == holding && !c.bereft && misses {
			s.breaks(unheld)
		}
		// A release that was given up unanswered, a crash and the loss of tombstones are reasons
		// to keep something.
		if c.phase == over && (c.holds && !c.lapsed || c.queued) && !c.again && !s.of(owner(o)).dead && !s.flushed {
			s.breaks(zombie)
		}
	}
}

// checkOvertaken looks at who has a better place than a claim that gets in.
func (s *state) checkOvertaken(o owner) {
	by := &s.claims[o]
	for i := range s.claims {
		if c := &s.claims[i]; c.queued && c.phase != over && (!by.queued || c.place < by.place) {
			s.breaks(order)
		}
	}
}

// tolerable says whether nobody whose time is not over minds a claim. Who believes that it is
// inside counts as its mode says.
func (s *state) tolerable(c *claim) bool {
	n, least := 1, c.limit()
	for i := range s.claims {
		if h := &s.claims[i]; h.holds && !h.lapsed && h != c {
			n, least = n+1, min(least, h.limit())
		}
	}
	return n <= least && !s.resting
}

// checkServed is for a command that lets in who fits.
func (s *state) checkServed() {
	if o := s.first(); o != nobody && s.claims[o].phase != over && s.tolerable(&s.claims[o]) {
		s.breaks(unserved)
	}
}

// quiet says that nobody wants anything.
func (s *state) quiet() bool {
	for o := range s.claims {
		if c := &s.claims[o]; c.phase != free && c.phase != over || s.of(owner(o)).line > 0 {
			return false
		}
	}
	return true
}
