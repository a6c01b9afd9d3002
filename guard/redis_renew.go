package guard

import (
	"context"
	"sync"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// Renew sends the batch as one pipeline, or on a cluster as one for each node.
func (s *redisStore) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	replies := make([]guardstore.RenewReply, len(batch))
	if s.nodes == nil || s.closed.Load() {
		all := make([]int, len(batch))
		for i := range all {
			all[i] = i
		}
		s.renew(ctx, batch, all, replies)
		return replies
	}
	var pipelines sync.WaitGroup
	for _, part := range s.byNode(ctx, batch) {
		pipelines.Go(func() { s.renew(ctx, batch, part, replies) })
	}
	pipelines.Wait()
	return replies
}

// byNode parts a batch by the nodes that serve its keys.
func (s *redisStore) byNode(ctx context.Context, batch []guardstore.Grant) map[string][]int {
	parts := make(map[string][]int)
	for i := range batch {
		// Without an answer, the pipeline will say why.
		addr, _ := s.nodes.addr(ctx, s.lockKey(batch[i].Key))
		parts[addr] = append(parts[addr], i)
	}
	return parts
}

// renew sends a part of a batch, and what Redis did not know by name once more.
func (s *redisStore) renew(ctx context.Context, batch []guardstore.Grant, part []int, replies []guardstore.RenewReply) {
	cmds := make([]once, len(batch))
	s.sendRenewals(ctx, batch, part, cmds, false)
	var unknown []int
	for _, i := range part {
		if isNoScript(cmds[i].Err()) {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		s.sendRenewals(ctx, batch, unknown, cmds, true)
	}
	for _, i := range part {
		reply, err := cmds[i].Result()
		if err != nil {
			replies[i].Err = classify(err)
			s.nodes.heed(ctx, err)
			continue
		}
		replies[i].Held, replies[i].Err = parseHeld(reply)
	}
}

func (s *redisStore) sendRenewals(ctx context.Context, batch []guardstore.Grant, which []int, cmds []once, inFull bool) {
	pipe := s.private.Pipeline()
	for _, i := range which {
		t := &batch[i]
		ttl := t.TTL.Milliseconds()
		cmd := renewScript.with([]string{s.lockKey(t.Key)}, &t.Owner, &t.Fence, &ttl, t.Depth, &t.Metadata)
		cmds[i] = newOnce(ctx, cmd, inFull)
		_ = pipe.Process(ctx, cmds[i]) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
}
