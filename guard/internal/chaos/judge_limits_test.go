package chaos_test

import (
	"cmp"
	"slices"
	"time"
)

// limit is how many may hold the key beside a hold, itself included.
func (l *lease) limit() int {
	switch l.Limit {
	case 0:
		return 1
	case shared:
		return 1 << 30
	}
	return l.Limit
}

// limits checks that there were never more holders than each of them tolerates,
// and that the fences of readers lie between those of the writers around them.
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
				func(a, b *record) int { return cmp.Compare(a.limit(), b.limit()) })
			j.overlaps = append(j.overlaps, overlap{a, b})
		}
	}
	j.readers(holds, losses)
}

// count is how many are inside, and how many may be. Readers of one process that share a claim
// have one fence, and count as one.
func count(inside []*record) (n, most int) {
	most = 1 << 30
	claims := map[uint64]bool{}
	for _, h := range inside {
		most = min(most, h.limit())
		if h.Limit != shared || !claims[h.Fence] {
			n++
		}
		claims[h.Fence] = true
	}
	return n, most
}

// readers checks the fences of a key that several may hold. Only those of writers give an order:
// holds that share a claim have one fence.
func (j *judgement) readers(holds []*record, losses []loss) {
	slices.SortStableFunc(holds, func(a, b *record) int { return cmp.Compare(a.Fence, b.Fence) })
	var last, writer *record // to be asked for
	for _, b := range holds {
		before := writer
		if b.Limit == 0 {
			before = last
		}
		if before != nil && before.Fence < b.Fence && b.Entered < before.asked && !j.setBack(b, before, losses) {
			b.note(&j.disorder, "began %v before lease %v (limit %d) was asked for, which has the lower fence %d",
				time.Duration(before.asked-b.Entered), before.name, before.Limit, before.Fence)
		}
		if last == nil || b.asked > last.asked {
			last = b
		}
		if b.Limit == 0 && (writer == nil || b.asked > writer.asked) {
			writer = b
		}
	}
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
