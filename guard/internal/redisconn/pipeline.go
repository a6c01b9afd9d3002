package redisconn

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// pipeline is what one common write takes along. Its memory serves one after another.
type pipeline struct {
	pending []pending
	alone   []pending
	batches []batch
	cmds    []noRetryCmd
}

// send sends what was taken. What is too late already, or whose caller has left, is not sent.
func (f *pipeline) send(c *combiner, client redis.UniversalClient) {
	if len(f.pending) == 1 && f.pending[0].ctx.Err() == nil {
		p := f.pending[0]
		reply, err := roundTrip(c.detached(p.ctx), p.command, client)
		c.answer(p, reply, err)
		return
	}
	f.sort(c)
	ctx := clock.WithoutDone(f.pending[0].ctx, time.Now().Add(c.timeout)) // its values are as good as another's
	pipe := client.Pipeline()
	for i := range f.batches {
		if b := &f.batches[i]; len(b.pending) > 0 {
			b.cmd = b.pack(ctx, false)
			_ = pipe.Process(ctx, b.cmd) // only queues it
		}
	}
	f.cmds = f.cmds[:0]
	for _, p := range f.alone {
		cmd := newCmd(ctx, p.command, p.withSource)
		f.cmds = append(f.cmds, cmd)
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	for i, p := range f.alone {
		if isNoScript(f.cmds[i].Err()) {
			p.withSource = true
			c.enqueue(p)
		} else {
			reply, err := f.cmds[i].Result()
			c.answer(p, reply, err)
		}
	}
	for i := range f.batches {
		b := &f.batches[i]
		if len(b.pending) > 0 && isNoScript(b.cmd.Err()) {
			b.cmd = b.pack(ctx, true)
			_ = client.Process(ctx, b.cmd) // it keeps its error
		}
		b.unpack(c)
	}
}

// sort says what goes along with others in one command.
func (f *pipeline) sort(c *combiner) {
	unbatched := c.unbatched.Load()
	f.alone = f.alone[:0]
	for i := range f.batches {
		f.batches[i].pending = f.batches[i].pending[:0]
	}
	for _, p := range f.pending {
		if err := p.ctx.Err(); err != nil {
			p.answers <- answer{nil, p.skipped(err)}
			continue
		}
		to := &f.alone
		if m := p.command.Batch(); m != nil && !p.alone && !unbatched {
			to = &f.batch(m).pending
		}
		*to = append(*to, p)
	}
	for i := range f.batches {
		if b := &f.batches[i]; len(b.pending) == 1 { // in company of nobody
			f.alone = append(f.alone, b.pending[0])
			b.pending = b.pending[:0]
		}
	}
}

func (f *pipeline) batch(m *Batch) *batch {
	for i := range f.batches {
		if f.batches[i].of == m {
			return &f.batches[i]
		}
	}
	f.batches = append(f.batches, batch{of: m})
	return &f.batches[len(f.batches)-1]
}
