package limits

import (
	"slices"

	"github.com/redlatch/redlatch/guard/internal/model/explore"
)

// print is a fingerprint of the state that is the same however claims are numbered. That two
// states share one is not impossible, but with 64 bits for a few million states less likely
// than one in a million.
func (s *state) print() uint64 {
	var each [owners]uint64
	for i := range each {
		each[i] = s.claims[i].print()
	}
	slices.Sort(each[:])
	b := &s.budget
	h := explore.Pack(s.now, s.last, s.fence, s.top, s.writer, s.untold)
	h = explore.Mix(h) ^ explore.Pack(b.calls, b.silences, b.crashes|b.flushes<<2|b.steps<<4|b.skips<<6, b.mutes)
	h = h<<3 | explore.Bit(s.flushed)<<2 | explore.Bit(s.excused)<<1 | explore.Bit(s.broken != nothing)
	for _, word := range each {
		h = explore.Mix(h) ^ word
	}
	return explore.Mix(h)
}

func (c *claim) print() uint64 {
	h := explore.Pack(uint8(c.mode), uint8(c.phase), uint8(c.reply), c.got, c.fence, c.noted, c.known<<4|c.place, uint8(c.lateAcquire))
	flags := uint64(0)
	for _, b := range [...]bool{
		c.direct, c.inDoubt, c.again, c.bereft, c.dead, c.lateRelease, c.lateRenew,
		c.holds, c.granted, c.lapsed, c.queued, c.tombstone, c.released, c.mute, c.marked,
	} {
		flags = flags<<1 | explore.Bit(b)
	}
	return explore.Mix(explore.Mix(h) ^ flags)
}
