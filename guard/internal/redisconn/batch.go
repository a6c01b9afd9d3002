package redisconn

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Batch is how commands of one script become one command of another, which does the same for
// those that meet no other owner: Redis has less to do for each, and so has the client.
type Batch struct {
	Script *Script
	Args   func(words []any, c Command) []any
}

// batchKeys is how many keys of each command go along.
const batchKeys = 3

// BatchReply is the reply to one command of a batch: not -1, which says that nothing was done.
type BatchReply int64

// batch are commands that are sent as one.
type batch struct {
	of      *Batch
	pending []pending
	words   []any
	cmd     noRetryCmd
}

func (b *batch) pack(ctx context.Context, inFull bool) noRetryCmd {
	name, text := b.of.Script.name(inFull)
	words := append(b.words[:0], name, text, len(b.pending)*batchKeys)
	for i := range b.pending {
		keys := b.pending[i].command.Keys()
		for k := range batchKeys {
			words = append(words, &keys[k])
		}
	}
	for i := range b.pending {
		words = b.of.Args(words, b.pending[i].command)
	}
	b.words = words
	return cmdOf(ctx, words)
}

// unpack hands out what came of a batch. What Redis did not do as part of it goes by
// itself. So does all of one that Redis refused: whatever was done is found done, as any
// command may be executed twice.
func (b *batch) unpack(c *combiner) {
	if len(b.pending) == 0 {
		return
	}
	reply, err := c.result(b.pending[0].ctx, b.cmd)
	var answer redis.Error
	refused := errors.As(err, &answer)
	if refused && redis.HasErrorPrefix(err, "CROSSSLOT") {
		c.unbatched.Store(true) // one address leads to a cluster
	}
	replies, _ := reply.([]any)
	for i, p := range b.pending {
		n := int64(-1)
		if len(replies) == len(b.pending) {
			if reply, ok := replies[i].(int64); ok {
				n = reply
			}
		}
		switch {
		case err != nil && !refused:
			c.answer(p, nil, err)
		case err == nil && n != -1:
			c.answer(p, BatchReply(n), nil)
		default:
			p.alone = true
			c.enqueue(p)
		}
	}
}
