package chaos_test

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	porcupineTimeout = 30 * time.Second
	porcupineHolds   = 1000 // checked at a time
)

// turn is an operation on a lock, for porcupine: the n-th hold begins or ends.
type turn struct {
	hold int
	ends bool
}

// mutex is the state of a lock: which hold was the last to begin, and whether it has not ended.
type mutex struct {
	hold int
	held bool
}

// lockModel is a lock that is granted in the order of the fences. before is the hold
// that came before the history.
func lockModel(before int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return mutex{hold: before} },
		Step: func(state, input, _ any) (bool, any) {
			s, t := state.(mutex), input.(turn)
			if t.ends {
				return s.held && s.hold == t.hold, mutex{hold: t.hold}
			}
			return !s.held && s.hold+1 == t.hold, mutex{hold: t.hold, held: true}
		},
	}
}

// linearizable has porcupine check the holds of one key, given in the order of their
// fences, which end at ends at the earliest: thousand by thousand, each of them with the
// last one of those before it. It does without those of servers that had been replaced:
// no single lock grants them and others, too.
func linearizable(all []*record, until []int64) porcupine.CheckResult {
	holds, ends := make([]*record, 0, len(all)), make([]int64, 0, len(all))
	for i, h := range all {
		if !h.stray {
			holds, ends = append(holds, h), append(ends, until[i])
		}
	}
	for from := 0; from < len(holds); from += porcupineHolds {
		to := min(from+porcupineHolds, len(holds))
		begin := max(from-1, 0)
		ops := make([]porcupine.Operation, 0, 2*(to-begin))
		for i := begin; i < to; i++ {
			ops = append(ops,
				porcupine.Operation{Input: turn{hold: i}, Call: holds[i].asked, Return: holds[i].Entered},
				porcupine.Operation{Input: turn{hold: i, ends: true}, Call: ends[i], Return: math.MaxInt64})
		}
		if r := porcupine.CheckOperationsTimeout(lockModel(begin-1), ops, porcupineTimeout); r != porcupine.Ok {
			return r
		}
	}
	return porcupine.Ok
}
