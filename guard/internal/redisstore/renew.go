package redisstore

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// Renew sends the batch as one pipeline, or on a cluster as one for each node.
func (s *Store) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	cmds := make([]redisconn.Command, len(batch))
	for i := range batch {
		cmds[i] = s.renewal(&batch[i])
	}
	replies := make([]guardstore.RenewReply, len(batch))
	for i, r := range s.conn.Pipeline(ctx, cmds) {
		if r.Err != nil {
			replies[i].Err = classify(r.Err)
			continue
		}
		replies[i] = parseRenewed(r.Value)
	}
	return replies
}
