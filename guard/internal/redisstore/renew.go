package redisstore

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// Renew sends the batch as one pipeline, or on a cluster as one for each node. A caller waits for a renewal without a ttl:
// it goes with the commands of callers.
func (s *Store) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	sent := s.now()
	replies := make([]guardstore.RenewReply, len(batch))
	if len(batch) == 1 && batch[0].TTL == 0 {
		reply, err := s.conn.Do(ctx, s.renewal(&batch[0]))
		replies[0] = s.renewed(ctx, batch[0].Key, sent, reply, err)
		return replies
	}
	cmds := make([]redisconn.Command, len(batch))
	for i := range batch {
		cmds[i] = s.renewal(&batch[i])
	}
	for i, r := range s.conn.Pipeline(ctx, cmds) {
		replies[i] = s.renewed(ctx, batch[i].Key, sent, r.Value, r.Err)
	}
	return replies
}

// renewal renews a grant.
func (s *Store) renewal(g *guardstore.Grant) redisconn.Command {
	all := s.keys(g.Key)
	keys := all[:1] // with one key, a renewal gets through while its slot moves
	switch {
	case g.Keep > 0:
		keys = []string{all[0], s.recordKey(g.Key)}
	case g.Limit != guardstore.Exclusive:
		keys = []string{all[0], all[4]}
	}
	return &renewCommand{g, keys, g.TTL.Milliseconds()}
}

// renewed reads the reply to a renewal.
func (s *Store) renewed(ctx context.Context, key string, sent instant, reply any, err error) guardstore.RenewReply {
	if err != nil {
		s.clock(ctx, key).doubt()
		return guardstore.RenewReply{Err: classify(err)}
	}
	r, at := parseRenewed(reply)
	s.clock(ctx, key).observe(at, sent, s.now())
	return r
}
