package explore

import "math/bits"

// What follows is of use for a Model's Print and Tidy.

// Pack puts up to eight values into a word.
func Pack(values ...uint8) (h uint64) {
	for _, v := range values {
		h = h<<8 | uint64(v)
	}
	return h
}

// Mix spreads what is in a word over all of it, one to one.
func Mix(h uint64) uint64 {
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	h = (h ^ h>>29) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// Bit is 1 for true.
func Bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Rank is how many of the values in seen, 0 apart, are up to n.
func Rank(seen uint64, n uint8) uint8 {
	if n > 63 {
		panic("more values than fit into a word")
	}
	return uint8(bits.OnesCount64(seen &^ 1 << (63 - n))) //nolint:gosec // at most 63
}
