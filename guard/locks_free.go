package guard

import (
	"context"
	"errors"
	"sync"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
)

// claimed is what came of asking for a key.
type claimed struct {
	begun  clock.Instant
	hold   cohort.Hold
	waited cohort.Waited
	err    error
}

// claimFree asks for several keys at the same time, and waits for none of them: on one Redis,
// keys that are free cost the time of one. It says what came of the first ones: of those
// before the first that was not to be had, and of that one unless it is busy and waited for. What it got
// behind that one is given back before it returns: who waits for a key holds none that comes
// later in the order.
func (g *Guard) claimFree(ctx context.Context, c call, locks []Lock) []claimed {
	begun := clock.Now()
	if g.checkSide(begun) != nil {
		return nil // acquire says so
	}
	waits := c.wait > 0
	c.wait, c.outer = 0, leaseIn(ctx)
	got := make([]claimed, len(locks))
	var claims sync.WaitGroup
	claim := func(i int) {
		one := c
		one.lock = c.describe(locks[i])
		got[i].begun = begun
		got[i].hold, got[i].waited, got[i].err = g.claim(ctx, &one, begun)
	}
	for i := range locks[1:] {
		claims.Go(func() { claim(i + 1) })
	}
	claim(0)
	claims.Wait()
	known := 0
	for known < len(got) && got[known].err == nil {
		known++
	}
	g.giveBackAll(ctx, got, known)
	if known < len(got) && (!waits || !errors.Is(got[known].err, ErrBusy)) {
		known++
	}
	return got[:known]
}

// giveBackAll gives back what was got of several keys, from one of them on.
func (g *Guard) giveBackAll(ctx context.Context, got []claimed, from int) {
	var releases sync.WaitGroup
	for _, one := range got[from:] {
		if one.err == nil {
			releases.Go(func() { g.giveBack(ctx, one.hold) })
		}
	}
	releases.Wait()
}

// giveBack releases a hold under which nothing ran.
func (g *Guard) giveBack(ctx context.Context, h cohort.Hold) {
	defer g.gate.Leave()
	_, _ = h.Release(context.WithoutCancel(ctx), afterWork)
}
