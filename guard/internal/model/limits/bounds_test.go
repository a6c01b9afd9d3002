//go:build !race

package limits

// bounds are explored to the last state. They are those of make test.
var bounds = []budget{
	{calls: 3, kinds: all},
	{calls: 2, kinds: all, silences: 2},
	{calls: 3, kinds: alone | readers, silences: 1},
	{calls: 3, kinds: alone | pairs | readers, crashes: 1},
	{calls: 2, kinds: all, silences: 1, flushes: 1, steps: 1},
	{calls: 3, kinds: alone | pairs | readers, skips: 1},
	{calls: 3, kinds: alone | pairs | readers, steps: 1},
	{calls: 3, kinds: alone | readers, crashes: 1, flushes: 1},
	{calls: 4, kinds: pairs},
	{calls: 3, kinds: alone | readers, mutes: 1},
}

// smaller bounds are those of the replay, the fewest claims first.
var smaller = []budget{
	{calls: 2, kinds: all, silences: 1},
	{calls: 2, kinds: alone | pairs | readers, steps: 1},
	{calls: 3, kinds: alone | pairs | readers | hasty},
	{calls: 2, kinds: alone | pairs | readers, mutes: 1},
}

// sparing is for the race detector. Here calls of few claims are replayed in all variants.
const sparing = false
