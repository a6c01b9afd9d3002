package guard

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// flight is what one common write takes along. Its memory serves one after another.
type flight struct {
	parcels []parcel
	singles []parcel
	bundles []bundle
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
	ctx := clock.WithDeadline(f.parcels[0].ctx, time.Now().Add(c.timeout)) // its values are as good as another's
	pipe := client.Pipeline()
	for i := range f.bundles {
		if b := &f.bundles[i]; len(b.parcels) > 0 {
			b.cmd = b.pack(ctx, false)
			_ = pipe.Process(ctx, b.cmd) // only queues it
		}
	}
	f.cmds = f.cmds[:0]
	for _, p := range f.singles {
		cmd := newOnce(ctx, p.request, p.inFull)
		f.cmds = append(f.cmds, cmd)
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	for i, p := range f.singles {
		if isNoScript(f.cmds[i].Err()) {
			p.inFull = true
			c.enqueue(p)
		} else {
			p.request.done(f.cmds[i].Result())
		}
	}
	for i := range f.bundles {
		b := &f.bundles[i]
		if len(b.parcels) > 0 && isNoScript(b.cmd.Err()) {
			b.cmd = b.pack(ctx, true)
			_ = client.Process(ctx, b.cmd) // it keeps its error
		}
		b.unpack(c)
	}
}

// part says what goes along with others in one command: nothing, if apart.
func (f *flight) part(apart bool) {
	f.singles = f.singles[:0]
	for i := range f.bundles {
		f.bundles[i].parcels = f.bundles[i].parcels[:0]
	}
	for _, p := range f.parcels {
		if err := p.ctx.Err(); err != nil {
			p.request.done(nil, err)
			continue
		}
		to := &f.singles
		if m := p.request.many(); m != nil && !p.single && !apart {
			to = &f.bundle(m).parcels
		}
		*to = append(*to, p)
	}
	for i := range f.bundles {
		if b := &f.bundles[i]; len(b.parcels) == 1 { // in company of nobody
			f.singles = append(f.singles, b.parcels[0])
			b.parcels = b.parcels[:0]
		}
	}
}

func (f *flight) bundle(m *many) *bundle {
	for i := range f.bundles {
		if f.bundles[i].many == m {
			return &f.bundles[i]
		}
	}
	f.bundles = append(f.bundles, bundle{many: m})
	return &f.bundles[len(f.bundles)-1]
}
