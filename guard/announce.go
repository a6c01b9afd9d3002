package guard

import (
	"context"
	"time"
)

// Announce implements guardstore.Announcer.
func (s *redisStore) Announce(ctx context.Context, instance, name string, life time.Duration) error {
	_, err := s.conn.call(ctx, "set", s.prefix+":instance:"+instance, name, "px", life.Milliseconds())
	return err
}

// Announce implements guardstore.Announcer: each server is told.
func (s *quorumStore) Announce(ctx context.Context, instance, name string, life time.Duration) error {
	answers := ask(ctx, s, func(ctx context.Context, n *redisStore, _ int) (struct{}, error) {
		return struct{}{}, n.Announce(ctx, instance, name, life)
	})
	var errs nodeErrors
	for range s.nodes {
		if a := <-answers; a.err != nil {
			errs = append(errs, a.err)
		}
	}
	return errs.join(s)
}
