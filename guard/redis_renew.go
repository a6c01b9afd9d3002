package guard

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// Renew sends the batch as one pipeline, or on a cluster as one for each node.
func (s *redisStore) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	cmds := make([]command, len(batch))
	for i := range batch {
		g := &batch[i]
		ttl := g.TTL.Milliseconds()
		cmds[i] = renewScript.with([]string{s.lockKey(g.Key)}, &g.Owner, &g.Fence, &ttl, g.Depth, &g.Metadata)
	}
	replies := make([]guardstore.RenewReply, len(batch))
	for i, r := range s.conn.pipeline(ctx, cmds) {
		if r.err != nil {
			replies[i].Err = classify(r.err)
			continue
		}
		replies[i] = parseRenewed(r.value)
	}
	return replies
}
