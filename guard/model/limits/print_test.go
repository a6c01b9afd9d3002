package limits

import "slices"

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
	h := pack(s.now, s.last, s.fence, s.top, s.writer, s.untold)
	h = mix(h) ^ pack(b.calls, b.silences, b.crashes|b.flushes<<2|b.steps<<4|b.skips<<6)
	h = h<<3 | bit(s.flushed)<<2 | bit(s.excused)<<1 | bit(s.broken != nothing)
	for _, word := range each {
		h = mix(h) ^ word
	}
	return mix(h)
}

func (c *claim) print() uint64 {
	h := pack(uint8(c.mode), uint8(c.phase), uint8(c.reply), c.got, c.fence, c.noted, c.known<<4|c.place, uint8(c.lateAcquire))
	flags := uint64(0)
	for _, b := range [...]bool{
		c.direct, c.inDoubt, c.again, c.bereft, c.dead, c.lateRelease, c.lateRenew,
		c.holds, c.apart, c.granted, c.lapsed, c.queued, c.tombstone, c.released,
	} {
		flags = flags<<1 | bit(b)
	}
	return mix(mix(h) ^ flags)
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
