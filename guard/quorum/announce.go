package quorum

import (
	"context"
	"time"
)

// Announce implements guardstore.Announcer, on each server.
func (s *Store) Announce(ctx context.Context, instance, name string, life time.Duration) error {
	answers := ask(ctx, s, func(ctx context.Context, n server, _ int) (struct{}, error) {
		return struct{}{}, n.Announce(ctx, instance, name, life)
	})
	var errs serverErrors
	for range s.nodes {
		if a := <-answers; a.err != nil {
			errs = append(errs, a.err)
		}
	}
	return errs.join(s)
}
