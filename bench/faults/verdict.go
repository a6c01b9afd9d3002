package main

import "time"

// verdict is what a scenario showed of a library. Times are in classes, so that three runs
// can say the same.
type verdict struct {
	Two      string // two at work at the same time, and for how long
	Notified string // the work, and when
	Late     string // a write of the former holder
	Next     string // when the next caller got the lock
	Told     string // the errors that callers get

	race  bool   // whether the work was notified or the next one began first is luck
	took  string // until the work was notified
	fence string // what stops a late write
}

// asRace is the verdict of a round that ended well, where others show that this was luck.
func (v verdict) asRace() verdict {
	v.race, v.Two, v.Notified, v.Late = true, "a moment at most", v.took, "may get in; "+v.fence
	return v
}

const none = "–"

// class names a time. The bounds are far from where times lie.
func class(d time.Duration) string {
	switch {
	case d < ttl/5:
		return "at once"
	case d < ttl*6/10:
		return "within ½ ttl"
	case d < ttl*13/10:
		return "after about 1 ttl"
	case d < ttl*2:
		return "within 2 ttl"
	}
	return "after 2 ttl or more"
}

// takeover is the verdict where one caller holds the lock and the next one wants it.
func takeover(s *scene, p *pair) verdict {
	first, second := s.witness.of(p.library, holder), s.witness.of(p.library, next)
	v := s.verdict(first, second)
	v.Next, v.Told = following(s.freed, second), told(first, second)
	return v
}

// verdict is what a takeover showed of the two calls together.
func (s *scene) verdict(first, second call) verdict {
	v := verdict{
		Two: twoAtWork(first), Notified: s.notification(first, second), Late: "none",
		took: class(first.noticed.Sub(s.harmed)), fence: "no fence",
	}
	switch {
	case first.fence > 0 && first.stale == first.late:
		v.fence = "the fence refuses it"
	case first.fence > 0:
		v.fence = "the fence lets it in"
	}
	if first.late > 0 {
		v.Late = "gets in; " + v.fence
	}
	if s.race(first, second) {
		return v.asRace()
	}
	return v
}

// Within a tie, two workers do not do one thing before the other every time. A loss that is noticed only
// when Redis is back, is noticed when others ask again, too.
const (
	tie     = ttl / 15
	backTie = ttl / 4
)

// race reports whether the first was notified when the second one began.
func (s *scene) race(first, second call) bool {
	if first.noticed.IsZero() || second.begun.IsZero() {
		return false
	}
	within := tie
	if first.noticed.Sub(s.harmed) > 2*ttl {
		within = backTie
	}
	return first.noticed.Sub(second.begun).Abs() < within
}

func twoAtWork(first call) string {
	switch d := time.Duration(first.together) * step; {
	case d == 0:
		return "no"
	case d < ttl/5:
		return "a moment"
	case d < ttl*6/10:
		return "up to ½ ttl"
	case d < ttl*13/10:
		return "about 1 ttl"
	}
	return "longer than 1 ttl"
}

func (s *scene) notification(first, second call) string {
	took := first.noticed.Sub(s.harmed)
	switch {
	case first.noticed.IsZero() && first.ended.IsZero():
		return none // it was killed
	case first.noticed.IsZero():
		return "no"
	case took < ttl*12/10 && (second.begun.IsZero() || first.noticed.Before(second.begun)):
		return "in time, within 1 ttl"
	}
	return class(took)
}

func following(freed time.Time, c call) string {
	if c.begun.IsZero() {
		return "not within 4 ttl"
	}
	return class(c.begun.Sub(freed))
}

func told(first, second call) string {
	text := "no error"
	if first.unlockErr != "" {
		text = first.unlockErr
	} else if first.unlocked.IsZero() {
		text = none
	}
	if second.refusal != "" {
		text += "; the next: " + second.refusal
	}
	return text
}

// leaves is the verdict where a caller no longer wants the lock.
func leaves(s *scene, p *pair) verdict {
	left, after := s.witness.of(p.library, next), s.witness.of(p.library, third)
	v := verdict{Two: none, Notified: none, Late: none, Next: following(s.freed, after)}
	switch {
	case !left.refused.IsZero():
		v.Told = left.refusal + ", " + class(left.refused.Sub(s.harmed))
	case !left.begun.IsZero():
		v.Told = "gets the lock, " + class(left.begun.Sub(s.harmed))
	default:
		v.Told = "nothing within 4 ttl"
	}
	return v
}

// single is the verdict where the first caller has to get the lock in spite of the fault.
func single(s *scene, p *pair) verdict {
	first, second := s.witness.of(p.library, holder), s.witness.of(p.library, next)
	v := takeover(s, p)
	v.Notified = none
	v.Told += ", has it " + class(first.begun.Sub(first.asked))
	freed := first.ended
	if second.asked.After(freed) {
		freed = second.asked
	}
	v.Next = following(freed, second)
	return v
}

// few is by how many later callers one may be overtaken where all ask in turn, 10 ms apart: what
// they say takes its time on a busy machine.
const few = callers / 5

// crowd is the verdict where many callers want the lock.
func crowd(s *scene, p *pair) verdict {
	v := verdict{Two: "no", Notified: none, Late: none, Next: "all of them", Told: "in order"}
	for i := range callers {
		c := s.witness.of(p.library, crowded+i)
		if c.late > 0 {
			v.Two = "yes"
		}
		if c.unlocked.IsZero() {
			v.Next = "not all within 10 ttl"
		}
		if c.overtaken > few {
			v.Told = "not in order"
		}
	}
	return v
}
