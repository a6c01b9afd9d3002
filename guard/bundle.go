package guard

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// many is how commands of one script become one command of another, which does the same for
// those that meet no other owner: Redis has less to do for each, and so has the client.
type many struct {
	script *script
	args   func(words []any, r request) []any
}

// manyKeys is how many keys of each command go along.
const manyKeys = 3

// ofMany is the reply to one of many: not -1, which says that nothing was done.
type ofMany int64

// bundle are requests that are sent as one command.
type bundle struct {
	many    *many
	parcels []parcel
	words   []any
	cmd     once
}

func (b *bundle) pack(ctx context.Context, inFull bool) once {
	name, text := b.many.script.name(inFull)
	words := append(b.words[:0], name, text, len(b.parcels)*manyKeys)
	for i := range b.parcels {
		keys := b.parcels[i].request.keys()
		for k := range manyKeys {
			words = append(words, &keys[k])
		}
	}
	for i := range b.parcels {
		words = b.many.args(words, b.parcels[i].request)
	}
	b.words = words
	return onceOf(ctx, words)
}

// unpack hands out what came of a bundle. What Redis did not do as part of it goes by
// itself. So does all of one that Redis refused: whatever was done is found done, as any
// command may be executed twice.
func (b *bundle) unpack(c *combiner) {
	if len(b.parcels) == 0 {
		return
	}
	reply, err := b.cmd.Result()
	var answer redis.Error
	refused := errors.As(err, &answer)
	if refused && redis.HasErrorPrefix(err, "CROSSSLOT") {
		c.apart.Store(true) // there is a cluster behind one address
	}
	replies, _ := reply.([]any)
	for i, p := range b.parcels {
		n := int64(-1)
		if len(replies) == len(b.parcels) {
			if reply, ok := replies[i].(int64); ok {
				n = reply
			}
		}
		switch {
		case err != nil && !refused:
			p.request.done(nil, err)
		case err == nil && n != -1:
			p.request.done(ofMany(n), nil)
		default:
			p.single = true
			c.enqueue(p)
		}
	}
}
