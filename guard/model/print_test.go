package model

import "slices"

// print is a fingerprint of the state that is the same however instances and their
// claims are numbered. That two states share one is not impossible, but with 64 bits
// for a few million states less likely than one in a million.
func (s *state) print() uint64 {
	var all [instances]uint64
	for i := range all {
		a, b := s.claims[i*slots].pack(), s.claims[i*slots+1].pack()
		all[i] = mix(mix(uint64(s.instances[i].line)<<1|bit(s.instances[i].dead))^min(a, b)) ^ max(a, b)
	}
	slices.Sort(all[:])
	b := &s.budget
	h := pack(s.now, s.last, s.fence, s.top, s.untold, b.calls<<4|b.silences, b.crashes|b.flushes<<2|b.steps<<4|b.skips<<6)
	h = h<<4 | bit(s.ahead)<<3 | bit(s.flushed)<<2 | bit(s.excused)<<1 | bit(s.broken != nothing)
	h = mix(h) ^ pack(s.named, b.keeps, b.revokes|b.breaks<<4, uint8(bit(s.resting)<<3|bit(s.owed)<<2|bit(s.revoked)<<1|bit(s.lateBreak))) //nolint:gosec // bits
	for _, word := range all {
		h = mix(h) ^ word
	}
	return mix(h)
}

// pack puts a claim into 61 bits.
func (c *claim) pack() uint64 {
	h := pack(uint8(c.phase), uint8(c.reply), c.got, c.fence, c.known<<4|c.place, uint8(c.lateAcquire)<<2|uint8(c.lateRelease))
	for _, b := range [...]bool{
		c.ahead, c.direct, c.told, c.inDoubt, c.again, c.bereft, c.holds, c.granted, c.queued, c.tombstone, c.released, c.keeps, c.ended,
	} {
		h = h<<1 | bit(b)
	}
	return h
}

func pack(values ...uint8) (h uint64) {
	for _, v := range values {
		h = h<<8 | uint64(v)
	}
	return h
}

// mix spreads what is in a word over all of it, one to one.
func mix(h uint64) uint64 {
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	h = (h ^ h>>29) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
