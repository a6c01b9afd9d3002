package records

import (
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

// rules are those of records. The zero value keeps them all; each field breaks one.
type rules struct {
	// Scripts.
	inputIsIgnored        bool // another input gets what the record says
	doneRunsAgain         bool // work begins although the record is done
	followsAtMostOnce     bool // at most once, work begins after an owner that never finished
	refusesBesideHolder   bool // at most once, a claim is refused instead of waiting for the holder
	beginIsNotWritten     bool // work begins without a record
	earlierIsForgotten    bool // the next owner does not learn of the owner that began before
	earlierIsNotifiedOnce bool // an owner that asks again learns nothing
	outcomeNeedsNoRecord  bool // at most once, an outcome is written although another one began since
	holderMayOverwrite    bool // the holder overwrites the record of another owner
	failureIsNotWritten   bool // the record of work that failed stays
	failureForgetsEarlier bool // work that failed deletes the record, though another owner began before
	lateOutcomeIsLost     bool // at most once, an outcome after the loss of the lock is not written
	forgetsWhatRuns       bool // Forget deletes the record of an owner that holds the lock
	forgetsWhatIsThere    bool // Forget deletes another record than the named one
	tombstonesAreIgnored  bool // an acquire of an owner with a tombstone is heeded

	// The instance.
	neverTombstones bool // forgets that an acquire may still be on its way
	neverUndoes     bool // gives up what it may have begun without saying that it did not run

	watch *watch // no rule: sees what the scripts are called with
}

// What must not happen.
const (
	nothing     modeltest.Property = ""
	invented    modeltest.Property = "a caller gets a result that no owner reported"
	atMostOnce  modeltest.Property = "at most once, work begins although the outcome of earlier work is unknown"
	again       modeltest.Property = "work begins although Redis, or a caller, knew a result, or beside an owner that holds the lock"
	overwritten modeltest.Property = "an outcome changes the record of another owner"
	unnotified  modeltest.Property = "work begins after an owner that never finished, and does not learn of it"
	otherInput  modeltest.Property = "a claim with another input begins, or gets a result"
	refused     modeltest.Property = "a claim is refused for work that never began, still runs under its lock, or was told to be done"
	forgotten   modeltest.Property = "Forget deletes the record of an owner that holds the lock, or a record that the operator did not see"
	unwritten   modeltest.Property = "an outcome is lost although its owner holds the lock, or, at most once, no owner began since"
)

// breaks notes the first property that breaks.
func (s *state) breaks(p modeltest.Property) {
	if s.broken == nothing {
		s.broken = p
	}
}

// checkBegin looks at an owner that may run, and at the fence of the one before.
func (s *state) checkBegin(o owner, earlier uint8) {
	self := &s.claims[o]
	for i := range s.claims {
		c := &s.claims[i]
		if owner(i) == o || !c.ran || c.cleared {
			continue
		}
		if self.atMostOnce {
			s.breaks(atMostOnce)
		}
		if c.known || c.told || s.holder == owner(i) {
			s.breaks(again)
		}
		if earlier == 0 && c.outcome != failed {
			s.breaks(unnotified)
		}
	}
}

// checkReply looks at the reply about the record that is there.
func (s *state) checkReply(o owner, got answer) {
	r, self := &s.record, &s.claims[o]
	differs := r.state != absent && r.input > 0 && self.input > 0 && r.input != self.input
	if differs && got.record != guardstore.RecordOtherInput {
		s.breaks(otherInput)
	}
	if got.record == done && s.claims[r.owner].outcome != kept {
		s.breaks(invented)
	}
}

// unsure reports whether another owner may have run.
func (s *state) unsure(o owner) bool {
	for i := range s.claims {
		c := &s.claims[i]
		if owner(i) != o && c.phase != free && (c.ran || c.dead || c.phase != ended || c.again) {
			return true
		}
	}
	return s.flushed
}

// checkOutcome looks at the record after the release of an owner.
func (s *state) checkOutcome(o owner, held bool, before record) {
	c, after := &s.claims[o], s.record
	before.touched, after.touched = false, false
	if before.state != absent && before.owner != o && before != after {
		s.breaks(overwritten)
	}
	own := before.state == begun && before.owner == o
	if c.outcome >= kept && own && (held || c.atMostOnce) && after.state != c.outcome.writes() {
		s.breaks(unwritten)
	}
}

// quiet says that no caller wants anything.
func (s *state) quiet() bool {
	for o := range s.claims {
		if c := &s.claims[o]; c.phase != free && c.phase != ended {
			return false
		}
	}
	return true
}
