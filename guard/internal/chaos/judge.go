package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// lateness is how long after its lease a context may end: what a busy machine may take
// to run a goroutine.
const lateness = 2 * time.Second

// judgement is what a history says about one key, or about all.
type judgement struct {
	clocks   clocks
	calls    int                    // of all processes
	replies  map[*process][]*record // holds from which it had a reply
	overlaps []string               // holds that were believed in when a later one had begun
	excused  int                    // overlaps that data loss or a clock that was set back explains
	disorder []string               // fences that must not be
	late     []string               // contexts that ended after their lease
	tooSoon  []string               // locks that were granted before their MinHold had ended
}

// note adds an error of a hold.
func (h *record) note(to *[]string, format string, args ...any) {
	*to = append(*to, fmt.Sprintf("%q: lease %v (fence %d, limit %d, %s) ", h.Key, h.name, h.Fence, h.Limit, h.Outcome)+fmt.Sprintf(format, args...))
}

// noteOverlap adds a hold that was believed in when a later one had begun.
func (j *judgement) noteOverlap(earlier, later *record) {
	earlier.note(&j.overlaps, "was believed in until %v after lease %v (fence %d) had begun\n  %+v\n  %+v",
		time.Duration(earlier.until()-later.Entered), later.name, later.Fence, earlier.lease, later.lease)
}

// order sorts the holds of one key by their fences, and checks that it is an order in which they may have been granted. Of
// those that may share a key, only a writer's fence says more than which grant it is: it lies between those around it.
func (j *judgement) order(holds []*record, losses []loss) {
	slices.SortStableFunc(holds, func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Entered, b.Entered))
	})
	var last, writer *record // to be asked for
	for i, b := range holds {
		before := writer
		if b.Limit == exclusive {
			before = last
		}
		switch {
		case before == nil || b.Entered >= before.asked:
		case j.setBack(b, before, losses):
			b.stray = true
		default:
			b.note(&j.disorder, "began %v before lease %v was asked for, which has the lower fence %d", time.Duration(before.asked-b.Entered), before.name, before.Fence)
		}
		if i > 0 && b.Fence == holds[i-1].Fence && (b.Limit == exclusive || holds[i-1].Limit == exclusive) && !j.setBack(holds[i-1], b, losses) {
			b.note(&j.disorder, "has the fence of lease %v", holds[i-1].name)
		}
		if last == nil || b.asked > last.asked {
			last = b
		}
		if b.Limit == exclusive && (writer == nil || b.asked > writer.asked) {
			writer = b
		}
	}
}

// setBack reports whether a fence may be lower than an earlier one, b's, or equal: the clock of the lower one is before the
// clock of the earlier one, and Redis lost the earlier one, or the lower one's process could not know that the clock had
// been as far. So internal/docs/protocol.md says. By what a fence is ahead of every clock, fences checks.
func (j *judgement) setBack(b, lower *record, losses []loss) bool {
	low, high := j.clocks.bounds(lower.asked, lower.Entered)
	back, clock := high-low, uint64(b.Entered+int64(high))/1000
	if back <= 0 || time.Duration(min(b.Fence, clock)-lower.Fence)*time.Microsecond > back {
		return false
	}
	return slices.ContainsFunc(losses, func(l loss) bool { return l.meets(b.asked, lower.Entered) }) || !j.knew(lower, b)
}

// roundTrip is what a reply takes at the most: the longest StoreTimeout of a worker.
const roundTrip = 2 * time.Second

// longestSilence is for how long a process may have no reply: while servers find together after a fault.
const longestSilence = time.Minute

// knew reports whether the process of a hold had a reply from which it knew how far the clock was when a fence was given: it
// had as high a fence of the key itself; or, of one server, it had any hold, and the clock was not set back from then until
// the fence was given. If the process then saw that the clock was set back, it took no fence below what the clock would
// have shown. If it did not, the step was smaller than the round trips of the two holds.
func (j *judgement) knew(h, b *record) bool {
	for _, r := range j.replies[h.process] {
		if r.Entered > h.asked {
			continue
		}
		if r.Key == h.Key && r.Fence >= b.Fence {
			return true
		}
		low, _ := j.clocks.bounds(r.Called, r.Entered)
		if later, _ := j.clocks.bounds(r.Called, max(r.Entered, b.Entered)); len(j.clocks) > 1 || low > later {
			continue
		}
		trips := r.Entered - r.Called + min(h.Entered-h.asked, int64(roundTrip)) + (h.Entered-r.Called)/1000
		if int64(b.Fence)*1000 <= int64(low)+min(b.Entered, h.asked-trips) {
			return true
		}
	}
	return false
}

// fences checks that none is further ahead of what the highest clock would show than by the number of holds since, fewer than
// there were calls; and, of a clock that was set, by a round trip and a tenth of the time for which a process had no reply.
func (j *judgement) fences(holds []*record) {
	for _, h := range holds {
		_, ahead := j.clocks.bounds(h.Entered, h.Entered)
		if j.clocks != nil {
			ahead += roundTrip + longestSilence/10
		}
		if more := int64(h.Fence) - (h.Entered+int64(ahead))/1000 - int64(j.calls); more > 0 {
			h.note(&j.disorder, "is further ahead of every clock than by the number of holds: by %v more", time.Duration(more)*time.Microsecond)
		}
	}
}

// askedAt is the instant before which Redis cannot have granted a hold. A hold that was
// handed over within its process has a fence of the time at which the lock was granted
// to a caller before: by a handover window, and a reply that took a ttl at most. That
// matters only if data was lost meanwhile: else no caller got the lock since.
func (l *lease) askedAt(losses []loss) int64 {
	granted := l.Called - 2*int64(l.TTL)
	if l.Local && slices.ContainsFunc(losses, func(s loss) bool { return s.meets(granted, l.Entered) }) {
		return granted
	}
	return l.Called
}

// exclusion checks that holds in the order of their fences do not overlap, those that Redis forgot excepted.
func (j *judgement) exclusion(holds []*record, losses []loss) {
	first := earliestFrom(holds)
	ends := make([]int64, len(holds))
	var open []int // earlier holds that may reach into later ones
	for i, b := range holds {
		ends[i] = b.until()
		still := open[:0]
		for _, k := range open {
			// If a was asked for later, the fences are wrong, and nothing else may be.
			if a := holds[k]; ends[k] > b.Entered && a.asked <= b.Entered {
				switch {
				case forgotten(a, b, losses):
					ends[k] = b.Entered
					j.excused++
				case a.Entered > b.Entered && j.setBack(b, a, losses) && (ends[i] <= a.Entered || forgotten(b, a, losses)):
					a.stray = true // it came later, under a fence that fell: b was over, or lost
					j.excused++
				case grantedTwice(b, losses):
					b.stray = true
					j.excused++
				default:
					j.noteOverlap(a, b)
				}
			}
			if ends[k] > first[i] {
				still = append(still, k)
			}
		}
		open = append(still, i)
	}
}

// loss is a time in which Redis may have lost data.
type loss struct {
	span
	twice bool // and in which two servers may both have granted
}

// forgotten reports whether Redis lost its data between two holds that overlap, and the
// earlier holder learned of it before its ttl had passed.
func forgotten(a, b *record, losses []loss) bool {
	return slices.ContainsFunc(losses, func(l loss) bool {
		return l.meets(a.asked, b.Entered) && a.until() <= l.to+int64(a.TTL)
	})
}

// grantedTwice reports whether a hold may be from a server that had been replaced, and its
// holder learned of it before its ttl had passed.
func grantedTwice(b *record, losses []loss) bool {
	return slices.ContainsFunc(losses, func(l loss) bool {
		return l.twice && l.meets(b.asked, b.Entered) && b.until() <= l.to+int64(b.TTL)
	})
}

// earliestFrom gives, for each hold, the first instant at which it or one after it began.
func earliestFrom(holds []*record) []int64 {
	first := make([]int64, len(holds))
	for i, h := range slices.Backward(holds) {
		first[i] = h.Entered
		if i+1 < len(holds) {
			first[i] = min(first[i], first[i+1])
		}
	}
	return first
}

// limits checks that there were never more holders than each of them tolerates.
func (j *judgement) limits(holds []*record, losses []loss) {
	slices.SortStableFunc(holds, func(a, b *record) int { return cmp.Compare(a.Entered, b.Entered) })
	var inside []*record
	for _, b := range holds {
		inside = slices.DeleteFunc(inside, func(a *record) bool { return a.until() <= b.Entered })
		inside = append(inside, b)
		if n, most := count(inside); n > most {
			remembered := slices.DeleteFunc(slices.Clone(inside), func(a *record) bool {
				return a != b && forgotten(a, b, losses)
			})
			if n, most := count(remembered); n <= most || grantedTwice(b, losses) {
				j.excused++
				continue
			}
			// The strictest of them says the most.
			a := slices.MinFunc(remembered[:len(remembered)-1],
				func(a, b *record) int { return cmp.Compare(a.Limit, b.Limit) })
			j.noteOverlap(a, b)
		}
	}
}

// count is how many are inside, and how many may be. Readers of one process that share a claim
// have one fence, and count as one.
func count(inside []*record) (n, most int) {
	most = shared
	claims := map[uint64]bool{}
	for _, h := range inside {
		most = min(most, h.Limit)
		if h.Limit != shared || !claims[h.Fence] {
			n++
		}
		claims[h.Fence] = true
	}
	return n, most
}

// minHolds checks that no caller got a lock before its time, in the order of the fences. A clock
// that is fast may take a tenth of it. It does not end sooner than the ttl: see draw.
func (j *judgement) minHolds(holds []*record, losses []loss) {
	for i := 1; i < len(holds); i++ {
		a, b := holds[i-1], holds[i]
		until := a.Called + int64(a.MinHold)*9/10
		if a.MinHold == 0 || b.Entered >= until || b.asked < a.asked && b.stray {
			continue
		}
		if !slices.ContainsFunc(losses, func(l loss) bool { return l.meets(a.asked, b.Entered) }) {
			a.note(&j.tooSoon, "was to keep the lock for %v, and lease %v began %v before that was over", a.MinHold, b.name, time.Duration(until-b.Entered))
		}
	}
}

// contexts checks that contexts ended in time.
func (j *judgement) contexts(holds []*record) {
	for _, h := range holds {
		late := time.Duration(h.Left - h.Deadline)
		if h.Trusting && h.Deadline > 0 && late > lateness && !h.process.wasStopped(h.Deadline-int64(100*time.Millisecond), h.Left) {
			h.note(&j.late, "was over for %v, and its context had not ended", late)
		}
	}
}

func (p *process) wasStopped(from, to int64) bool {
	return slices.ContainsFunc(p.stops, func(s span) bool { return s.meets(from, to) })
}

// judge looks at every key.
func judge(history map[string][]*record, losses []loss, cs clocks, calls int) *judgement {
	j := &judgement{clocks: cs, calls: calls, replies: make(map[*process][]*record)}
	for _, h := range slices.Concat(slices.Collect(maps.Values(history))...) {
		h.asked = h.askedAt(losses)
		if !h.Local && h.Limit != shared {
			j.replies[h.process] = append(j.replies[h.process], h)
		}
	}
	for _, holds := range history {
		j.fences(holds)
		j.contexts(holds)
		j.order(holds, losses)
		if slices.ContainsFunc(holds, func(h *record) bool { return h.Limit != exclusive }) {
			j.limits(holds, losses)
			continue
		}
		j.exclusion(holds, losses)
		j.minHolds(holds, losses)
	}
	return j
}
