package cohort

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// revoked is for the message that somebody stepped in on an owner's hold.
func (t *Table) revoked(owner string) {
	t.Tasks.Go(func() {
		g := t.grantOf(owner)
		if g == nil {
			t.revocations.note(owner)
			if g = t.grantOf(owner); g == nil {
				return // it is finished, or not known yet: see Hold.Watch
			}
		}
		t.checkRevoked(g)
	})
}

// checkRevoked is for a grant on which somebody is said to have stepped in. The store is asked
// at once: the message alone ends nothing. Nothing else tells a FixedLease: it insists.
func (t *Table) checkRevoked(g *watchdog.Grant) {
	label := Label{Key: g.Claim.Key} // while nobody has it, it has no name
	for _, one := range holdersOf(t.watchdog.HolderOf(g)) {
		label = one.Held().Label
	}
	reply, err := t.check(context.Background(), checkOp, label, g, Patience{Most: t.watchdog.Deadline(g).Until()})
	if err == nil && !reply.Held {
		t.watchdog.End(g, ErrRevoked)
	}
}

// grantOf gives the grant that an owner stands for, if this process has it, also while it
// is handed from caller to caller.
func (t *Table) grantOf(owner string) *watchdog.Grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.cohorts {
		for _, g := range c.grants {
			if g.Claim.Owner == owner {
				return g
			}
		}
	}
	return nil
}

// revocations are owners whose hold somebody stepped in on before it was known here, and when
// that was. A message is not much faster than a reply; most of those that are remembered are about
// holds that are finished.
type revocations struct {
	n atomic.Int64 // how many there were

	mu     sync.Mutex
	owners map[string]clock.Instant
}

const (
	revocationLife  = time.Minute
	mostRevocations = 10_000 // more than that in a minute are no work of people
)

func (r *revocations) note(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := clock.Now()
	if r.owners == nil || len(r.owners) >= mostRevocations {
		r.owners = make(map[string]clock.Instant)
	}
	for one, noted := range r.owners {
		if at.Sub(noted) > revocationLife {
			delete(r.owners, one)
		}
	}
	r.owners[owner] = at
	r.n.Add(1)
}

// has says, once, whether somebody is said to have stepped in on an owner before that was known here:
// the message overtook the reply.
func (r *revocations) has(owner string) bool {
	if r.n.Load() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.owners[owner]
	delete(r.owners, owner)
	return known
}
