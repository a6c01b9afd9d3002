package guard

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// flight is what one common write takes along. Its memory serves one after another.
type flight struct {
	parcels []parcel
	singles []parcel
	bundles [2]bundle
	cmds    []once
}

// send sends what was taken. What is too late already is not sent.
func (f *flight) send(c *combiner, client redis.UniversalClient) {
	if len(f.parcels) == 1 {
		p := f.parcels[0]
		p.request.done(run(p.ctx, p.request, client))
		return
	}
	f.part(c.apart.Load())
	ctx := endingAt(f.parcels[0].ctx, time.Now().Add(c.timeout)) // its values are as good as another's
	pipe := client.Pipeline()
	f.cmds = f.cmds[:0]
	for i := range f.bundles {
		if b := &f.bundles[i]; len(b.parcels) > 0 {
			f.cmds = append(f.cmds, b.pack(ctx, false))
		}
	}
	for _, p := range f.singles {
		f.cmds = append(f.cmds, newOnce(ctx, p.request, p.inFull))
	}
	for _, cmd := range f.cmds {
		_ = pipe.Process(ctx, cmd) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	cmds := f.cmds
	for i := range f.bundles {
		if b := &f.bundles[i]; len(b.parcels) > 0 {
			cmd := cmds[0]
			if isNoScript(cmd.Err()) {
				cmd = b.pack(ctx, true)
				_ = client.Process(ctx, cmd) // it keeps its error
			}
			b.unpack(c, cmd)
			cmds = cmds[1:]
		}
	}
	for i, p := range f.singles {
		if isNoScript(cmds[i].Err()) {
			p.inFull = true
			c.enqueue(p)
		} else {
			p.request.done(cmds[i].Result())
		}
	}
}

// part says what goes along with others in one command: nothing, if apart.
func (f *flight) part(apart bool) {
	f.singles = f.singles[:0]
	for i, m := range []*many{manyAcquires, manyReleases} {
		b := &f.bundles[i]
		b.many, b.parcels = m, b.parcels[:0]
	}
	for _, p := range f.parcels {
		if err := p.ctx.Err(); err != nil {
			p.request.done(nil, err)
			continue
		}
		to := &f.singles
		if m := p.request.many(); m != nil && !p.single && !apart {
			to = &f.bundles[m.kind].parcels
		}
		*to = append(*to, p)
	}
}

// many is how commands of one script become one command of another, which does the same for
// those that meet no other owner: Redis has less to do for each, and so has the client.
type many struct {
	kind   int
	script *script
	args   func(words []any, r request) []any
}

// manyKeys is how many keys of each command go along.
const manyKeys = 3

var (
	manyAcquires = &many{0, acquireManyScript, func(words []any, r request) []any {
		a := r.(*acquiring)
		return append(words, &a.Owner, &a.ttl, &a.Metadata)
	}}
	manyReleases = &many{1, releaseManyScript, func(words []any, r request) []any {
		a := r.(*releasing)
		return append(words, &a.Owner, &a.ttl, &a.Fence)
	}}
)

// ofMany is the reply to one of many: not negative.
type ofMany int64

// bundle are requests that are sent as one command.
type bundle struct {
	many    *many
	parcels []parcel
	words   []any
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
func (b *bundle) unpack(c *combiner, cmd once) {
	reply, err := cmd.Result()
	var answer redis.Error
	refused := errors.As(err, &answer)
	if refused && redis.HasErrorPrefix(err, "CROSSSLOT") {
		c.apart.Store(true) // there is a cluster behind one address
	}
	replies, _ := reply.([]any)
	for i, p := range b.parcels {
		n := int64(-1)
		if len(replies) == len(b.parcels) {
			n, _ = replies[i].(int64)
		}
		switch {
		case err != nil && !refused:
			p.request.done(nil, err)
		case err == nil && n >= 0:
			p.request.done(ofMany(n), nil)
		default:
			p.single = true
			c.enqueue(p)
		}
	}
}
