package model

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

	// The instance.
	trustsMessages    bool // works on a message, without asking
	trustsLateAnswers bool // counts its deadline from the answer, not from the sending
	neverTombstones   bool // forgets that an acquire may still be on its way
	hasNoPulse        bool // asks again only when it is told to
	dropsFloor        bool // does not say what the fence of a claim must be above
	outrunsClock      bool // hands over locally without regard to the clock
	handsOnAhead      bool // hands over locally under a fence that is ahead of the clock
	handsOnKept       bool // hands over locally what is to stay taken

	watch *watch // no rule: sees what the scripts are called with
}

// property is what must not happen.
type property uint8

const (
	nothing property = iota
	mutex
	fences
	zombie
	order
	outcast
	early
	kept
	revived
	astray
	stuck
)

func (p property) String() string {
	return [...]string{
		nothing: "nothing",
		mutex:   "two work at a time, on grants that Redis did not lose",
		fences:  "work begins under a fence that is not above the earlier ones",
		zombie:  "Redis keeps a claim that is over, and nothing is on its way to undo it",
		order:   "a claim that waits is overtaken",
		outcast: "a claim that waits is told that it is over",
		early:   "somebody gets in before a MinHold is over",
		kept:    "a lock stays taken for who did not hold it",
		revived: "a hold that was revoked goes on",
		astray:  "somebody steps in on a hold that was not meant",
		stuck:   "somebody never gets in, though nothing fails any more",
	}[p]
}

// breaks notes the first property that breaks.
func (s *state) breaks(p property) {
	if s.broken == nothing {
		s.broken = p
	}
}

// work begins the work of the next in line.
func (s *state) work(o owner, fence uint8) {
	c := &s.claims[o]
	for i := range s.claims {
		other := &s.claims[i]
		switch {
		case i == int(o) || other.phase != holding:
		case other.bereft == c.bereft:
			s.breaks(mutex)
		case c.bereft == (fence > other.fence) && !s.excused:
			s.breaks(fences)
		}
	}
	// Work on a grant that Redis lost may begin after that of a later one. After a fault
	// that is an excuse, only those who waited behind a lease need a higher fence than it.
	if fence <= c.fence || !s.excused && (fence == s.top || fence < s.top && !c.bereft) {
		s.breaks(fences)
	}
	c.phase, c.reply, c.fence = holding, none, fence
	s.top = max(s.top, fence)
	s.of(o).line--
}

// checkLeftovers looks for what Redis keeps in vain. A release that was given up
// unanswered, a crash and the loss of tombstones are reasons to.
func (s *state) checkLeftovers() {
	for o := range s.claims {
		c := &s.claims[o]
		if c.phase == over && (c.holds || c.queued) && !c.again && !s.of(owner(o)).dead && !s.flushed {
			s.breaks(zombie)
		}
	}
}

// checkOvertaken looks at who has a better place than a claim that gets the lock.
func (s *state) checkOvertaken(o owner) {
	for i := range s.claims {
		c, by := &s.claims[i], &s.claims[o]
		if c.queued && c.phase != over && (!by.queued || c.place < by.place) {
			s.breaks(order)
		}
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
