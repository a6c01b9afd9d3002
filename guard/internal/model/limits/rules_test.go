package limits

// rules are those of claims with limits. The zero value keeps them all; each field breaks one.
type rules struct {
	// Scripts.
	ownLimitIsIgnored     bool // a claim gets in whatever it tolerates itself
	limitInsideIsIgnored  bool // a claim gets in whatever those inside tolerate
	deadAreCounted        bool // holders whose time is over are not dropped
	liveAreDropped        bool // holders are dropped whose time is not over
	hashLivesAsTheLatest  bool // the hash has the ttl of who came last, not the longest one
	hashEndsWithOne       bool // the release of one frees the lock
	fencesRepeat          bool // fences of one instant are the same
	lastMissesFences      bool // a fence is not told to last
	takeIgnoresLast       bool // a fence is not above last
	passesTheQueue        bool // who does not wait gets in past who waits
	passesTheFront        bool // who waits gets in past a live claim in front that does not fit
	confirmServesNobody   bool // who is confirmed does not let in who fits beside it
	releaseServesNobody   bool // who leaves does not
	givingUpServesNobody  bool // a claim that gives up its place does not
	grantHasNoEnd         bool // who was granted the lock may ask whenever it likes
	confirmsAnyFence      bool // a hold is confirmed whatever the claim says its fence must be above
	overForgetsTombstones bool // who has a tombstone is not over
	overForgetsReleased   bool // who released last is not over
	joinForgetsPlace      bool // a claim that was passed over queues behind everybody
	joinKeepsWorsePlace   bool // a claim does not get its place back once it is queued behind it
	renewalRevives        bool // a renewal brings back a hold whose time was over
	renewalIgnoresFence   bool // a renewal does not ask under which fence the owner holds
	mutesAreDead          bool // a claim that no message reaches is passed over, however lately it asked

	// The instance.
	trustsLateAnswers bool // counts its deadline from the answer, not from the sending
	neverTombstones   bool // forgets that an acquire may still be on its way

	watch *watch // no rule: sees what the scripts are called with
}

// property is what must not happen.
type property uint8

const (
	nothing property = iota
	mutex
	unheld
	fences
	order
	zombie
	revived
	silent
	outcast
	vain
	unserved
	stuck
)

func (p property) String() string {
	return [...]string{
		nothing:  "nothing",
		mutex:    "more believe that they are inside than one of them tolerates",
		unheld:   "somebody believes that it is inside, and Redis does not know it, though nothing was lost",
		fences:   "work begins under a fence that it must not have",
		order:    "a claim that waits is overtaken, or gets a worse place",
		zombie:   "Redis keeps a claim that is over, and nothing is on its way to undo it",
		revived:  "a hold whose time was over is back",
		silent:   "somebody is told that it holds on, and Redis has lost its hold",
		outcast:  "a claim that waits is told that it is over",
		vain:     "a claim that asks is kept waiting, and nobody is there who minds it (costs waiting only)",
		unserved: "whoever is in front and fits is not let in by a command that should (costs waiting only)",
		stuck:    "somebody never gets in, though nothing fails any more",
	}[p]
}

// breaks notes the first property that breaks.
func (s *state) breaks(p property) {
	if s.broken == nothing {
		s.broken = p
	}
}

// work begins the work of a claim.
func (s *state) work(o owner, fence uint8) {
	c := &s.claims[o]
	n, least := 1, c.limit()
	for i := range s.claims {
		other := &s.claims[i]
		if i == int(o) || other.phase != holding {
			continue
		}
		strict := c.limit() == 1 || other.limit() == 1
		switch {
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
	// Work on a hold that Redis lost may begin after that of a later one.
	above := s.writer
	if c.limit() == 1 {
		above = s.top
	}
	if !s.excused && (fence == above || fence < above && !c.bereft) {
		s.breaks(fences)
	}
	c.phase, c.reply, c.fence = holding, none, fence
	if s.top = max(s.top, fence); c.limit() == 1 {
		s.writer = max(s.writer, fence)
	}
}

// check looks at what has to hold at any time.
func (s *state) check() {
	for o := range s.claims {
		c := &s.claims[o]
		if c.phase == holding && !c.bereft && (!c.holds || c.lapsed || c.noted != c.fence) {
			s.breaks(unheld)
		}
		// A release that was given up unanswered, a crash and the loss of tombstones are reasons
		// to keep something.
		if c.phase == over && (c.holds && !c.lapsed || c.queued) && !c.again && !c.dead && !s.flushed {
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
		h := &s.claims[i]
		if !h.holds || h.lapsed || h == c {
			continue
		}
		n, least = n+1, min(least, h.limit())
	}
	return n <= least
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
		if c := &s.claims[o]; c.phase != free && c.phase != over {
			return false
		}
	}
	return true
}
