package guard

import (
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// refusalRest is for how long a server of a quorum on whose host nothing listens is not
// asked again by calls that the others may well answer: each would dial.
const refusalRest = 20 * time.Millisecond

// refusal is when a server was found not to listen.
type refusal struct {
	seen atomic.Pointer[lastRefusal]
}

type lastRefusal struct {
	at  clock.Instant
	err error
}

// reach calls one server, unless it did not listen a moment ago.
func reach[T any](s *quorumStore, node int, call func() (T, error)) (reply T, err error) {
	r := &s.refusals[node]
	if last := r.seen.Load(); last != nil && clock.Now().Sub(last.at) < refusalRest {
		return reply, last.err
	}
	reply, err = call()
	if neverSent(err) {
		r.seen.Store(&lastRefusal{clock.Now(), err})
	}
	return reply, err
}
