package redisstore

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// Renew sends the batch as one pipeline, or on a cluster as one for each node. What a caller
// waits for goes out with what callers send.
func (s *Store) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	if len(batch) == 1 && batch[0].TTL == 0 {
		return []guardstore.RenewReply{renewed(s.conn.Do(ctx, s.renewal(&batch[0])))}
	}
	cmds := make([]redisconn.Command, len(batch))
	for i := range batch {
		cmds[i] = s.renewal(&batch[i])
	}
	replies := make([]guardstore.RenewReply, len(batch))
	for i, r := range s.conn.Pipeline(ctx, cmds) {
		replies[i] = renewed(r.Value, r.Err)
	}
	return replies
}

// renewal renews a grant.
func (s *Store) renewal(g *guardstore.Grant) redisconn.Command {
	all := s.keys(g.Key)
	keys := all[:1] // with one key, a renewal gets through while its slot moves
	if g.Limit != guardstore.Exclusive {
		keys = []string{all[0], all[4]}
	}
	args := []any{&g.Owner, &g.Fence, g.TTL.Milliseconds(), g.Depth, &g.Metadata}
	if g.Keep > 0 {
		keys, args = []string{all[0], s.recordKey(g.Key)}, append(args, g.Keep.Milliseconds())
	}
	return renewScript.With(keys, args...)
}

// renewed reads the reply to a renewal.
func renewed(reply any, err error) guardstore.RenewReply {
	if err != nil {
		return guardstore.RenewReply{Err: classify(err)}
	}
	return parseRenewed(reply)
}
