package modeltest

import (
	"math"
	"math/bits"
)

// Pack puts up to eight values into a word.
func Pack(values ...uint8) (h uint64) {
	for _, v := range values {
		h = h<<8 | uint64(v)
	}
	return h
}

// Mix spreads the bits of a word over all of it, one to one.
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

// Rank puts the ranks of values, gap apart, in their places, as only their order counts. 0 stays.
func Rank(gap uint8, values ...*uint8) {
	var there [4]uint64 // a bit for each value
	for _, v := range values {
		there[*v/64] |= 1 << (*v % 64)
	}
	there[0] &^= 1
	for _, v := range values {
		is := bits.OnesCount64(there[*v/64] << (63 - *v%64))
		for _, word := range there[:*v/64] {
			is += bits.OnesCount64(word)
		}
		if is *= int(gap); is > math.MaxUint8-2*int(gap) {
			panic("more values than fit")
		}
		*v = uint8(is)
	}
}
