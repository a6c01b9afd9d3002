package redisstore

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// Together sends claims and releases in one write, as they go out under load, and returns
// when all of them are answered: claims first in errs.
func Together(ctx context.Context, store guardstore.Store, claims []guardstore.Claim, releases []guardstore.Release) (claimed []guardstore.ClaimReply, freed []guardstore.ReleaseReply, errs []error) {
	s := store.(*Store)
	var cmds []redisconn.Command
	for i := range claims {
		cmds = append(cmds, s.acquireCommand(&claims[i], s.keys(claims[i].Key)))
	}
	for i := range releases {
		cmds = append(cmds, s.releaseCommand(ctx, &releases[i]))
	}
	for i, r := range s.conn.Pipeline(ctx, cmds) {
		if i < len(claims) {
			reply, _, err := parseClaim(r.Value, r.Err)
			claimed, errs = append(claimed, reply), append(errs, err)
			continue
		}
		reply, err := parseRelease(r.Value, r.Err)
		freed, errs = append(freed, reply), append(errs, err)
	}
	return claimed, freed, errs
}

// SetClock has a Store read another clock.
func SetClock(store guardstore.Store, now func() clock.Instant) { store.(*Store).now = now }
