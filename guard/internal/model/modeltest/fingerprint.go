package modeltest

import (
	"math"
	"math/bits"
)

// What follows is of use for a Model's Print and Tidy.

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

// Ranks is a set of values. A model keeps ranks in their place, as only their order counts.
type Ranks [4]uint64

// Add adds values.
func (f *Ranks) Add(values ...*uint8) {
	for _, v := range values {
		f[*v/64] |= 1 << (*v % 64)
	}
}

// Of is how many of the values, 0 apart, are up to n, times gap.
func (f *Ranks) Of(n, gap uint8) uint8 {
	is := bits.OnesCount64(f[n/64]<<(63-n%64)) - int(f[0]&1)
	for _, word := range f[:n/64] {
		is += bits.OnesCount64(word)
	}
	if is *= int(gap); is > math.MaxUint8-2*int(gap) {
		panic("more values than fit")
	}
	return uint8(is)
}

// Rank puts the ranks of values in their places, gap apart.
func Rank(gap uint8, values ...*uint8) {
	var all Ranks
	all.Add(values...)
	for _, v := range values {
		*v = all.Of(*v, gap)
	}
}
