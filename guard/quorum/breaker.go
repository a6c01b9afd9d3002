package quorum

import (
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// breakerRest is for how long a server of a quorum on whose host nothing listens is not
// asked again by calls that the others may well answer: each would dial.
const breakerRest = 20 * time.Millisecond

// breaker is when a server was found not to listen.
type breaker struct {
	last atomic.Pointer[refusal]
}

type refusal struct {
	at  clock.Instant
	err error
}

// reach calls one server, unless it did not listen a moment ago.
func reach[T any](s *Store, node int, call func() (T, error)) (reply T, err error) {
	r := &s.breakers[node]
	if last := r.last.Load(); last != nil && clock.Now().Sub(last.at) < breakerRest {
		return reply, last.err
	}
	reply, err = call()
	if neverSent(err) {
		r.last.Store(&refusal{clock.Now(), err})
	}
	return reply, err
}
