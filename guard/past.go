package guard

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

// mostPast is how many claims that are over are remembered: those of the last seconds.
const mostPast = 1024

// past is what a Guard remembers of its claims that are over. A server that took over from
// another may not know, and grant a lock to one of them. It is given back at once: those
// behind it need not wait until nobody came for it. An owner is never used again after its
// release, so that to repeat that does no harm. What is looked for seldom is just looked for.
type past struct {
	claims []pastClaim // a ring
	next   int         // in it
}

type pastClaim struct {
	lock    Lock
	release guardstore.Release
}

func (p *past) remember(lock Lock, r guardstore.Release) {
	if len(p.claims) < mostPast {
		p.claims = append(p.claims, pastClaim{lock, r})
		return
	}
	p.claims[p.next] = pastClaim{lock, r}
	p.next = (p.next + 1) % mostPast
}

func (p *past) find(owner string) (c pastClaim, known bool) {
	for _, c := range p.claims {
		if c.release.Owner == owner {
			return c, true
		}
	}
	return pastClaim{}, false
}

// whenOver notes that a claim is over when its release was answered, or failed. Before, the
// release on behalf of a late message could overtake it, and make the hold look lost.
func (gr *grants) whenOver(lock Lock, r guardstore.Release, done func(guardstore.ReleaseReply, error)) func(guardstore.ReleaseReply, error) {
	if !gr.queues.Load() {
		return done // nobody grants anything to this Guard
	}
	return func(reply guardstore.ReleaseReply, err error) {
		gr.mu.Lock()
		gr.past.remember(lock, r)
		gr.mu.Unlock()
		done(reply, err)
	}
}

// giveBack gives back what was granted to a claim that is over. It needs gr.mu.
func (gr *grants) giveBack(owner string) {
	c, known := gr.past.find(owner)
	if !known {
		return
	}
	g := gr.g
	g.tasks.Go(func() {
		ctx := context.Background()
		_, _ = g.newRelease(c.lock, c.release, nil).Run(ctx, g.abort, clock.Now().Add(g.storeTimeout))
	})
}
