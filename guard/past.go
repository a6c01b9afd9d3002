package guard

import "context"

// mostPast is how many claims that are over are remembered: those of the last seconds.
const mostPast = 1024

// past is what a Guard remembers of its claims that are over. A server that took over from
// another may not know, and grant a lock to one of them. It is given back at once: those
// behind it need not wait until nobody came for it. An owner is never used again after its
// release began, so that to repeat that does no harm.
type past struct {
	claims  []pastClaim // a ring
	next    int         // in it
	byOwner map[string]int
}

type pastClaim struct {
	lock    Lock
	release Release
}

func (p *past) remember(c pastClaim) {
	if _, known := p.byOwner[c.release.Owner]; known {
		return
	}
	if p.next == len(p.claims) {
		p.claims = append(p.claims, c)
	} else {
		delete(p.byOwner, p.claims[p.next].release.Owner)
		p.claims[p.next] = c
	}
	p.byOwner[c.release.Owner] = p.next
	p.next = (p.next + 1) % mostPast
}

// over notes that a claim is over.
func (gr *grants) over(lock Lock, r Release) {
	if !gr.open() {
		return // nobody grants anything to this Guard
	}
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.past.remember(pastClaim{lock, r})
}

// giveBack gives back what was granted to a claim that is over. It needs gr.mu.
func (gr *grants) giveBack(owner string) {
	i, known := gr.past.byOwner[owner]
	if !known {
		return
	}
	g, c := gr.g, gr.past.claims[i]
	g.background.spawn(func() {
		ctx := context.Background()
		_, _ = g.newRelease(c.lock, c.release, nil).run(ctx, g.abort, now().add(g.storeTimeout))
	})
}
