package redisstore

import (
	"context"
	"time"
)

// Announce implements guardstore.Announcer.
func (s *Store) Announce(ctx context.Context, instance, name string, life time.Duration) error {
	_, err := s.conn.Call(ctx, "set", s.prefix+":instance:"+instance, name, "px", life.Milliseconds())
	return err
}
