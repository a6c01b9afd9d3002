package model

import (
	"slices"

	"github.com/redlatch/redlatch/guard/internal/model/explore"
)

// print is a fingerprint of the state that is the same however instances and their
// claims are numbered. That two states share one is not impossible, but with 64 bits
// for a few million states less likely than one in a million.
func (s *state) print() uint64 {
	var all [instances]uint64
	for i := range all {
		a, b := s.claims[i*slots].pack(), s.claims[i*slots+1].pack()
		all[i] = explore.Mix(explore.Mix(uint64(s.instances[i].line)<<2|explore.Bit(s.instances[i].mute)<<1|explore.Bit(s.instances[i].dead))^min(a, b)) ^ max(a, b)
	}
	slices.Sort(all[:])
	b := &s.budget
	h := explore.Pack(s.now, s.last, s.fence, s.top, s.untold, b.calls<<4|b.silences, b.crashes|b.flushes<<2|b.steps<<4|b.skips<<6)
	h = h<<4 | explore.Bit(s.ahead)<<3 | explore.Bit(s.flushed)<<2 | explore.Bit(s.excused)<<1 | explore.Bit(s.broken != nothing)
	h = explore.Mix(h) ^ explore.Pack(s.named, b.keeps|b.mutes<<4, b.revokes|b.breaks<<4, uint8(explore.Bit(s.resting)<<3|explore.Bit(s.owed)<<2|explore.Bit(s.revoked)<<1|explore.Bit(s.lateBreak))) //nolint:gosec // bits
	for _, word := range all {
		h = explore.Mix(h) ^ word
	}
	return explore.Mix(h)
}

// pack puts a claim into 63 bits.
func (c *claim) pack() uint64 {
	h := explore.Pack(uint8(c.phase), uint8(c.reply), c.got, c.fence, c.known<<4|c.place, uint8(c.lateAcquire))
	for _, b := range [...]bool{
		c.ahead, c.direct, c.told, c.inDoubt, c.again, c.bereft, c.holds, c.granted, c.queued, c.tombstone, c.released, c.keeps, c.ended, c.lateRelease, c.mute,
	} {
		h = h<<1 | explore.Bit(b)
	}
	return h
}
