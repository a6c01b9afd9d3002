//go:build race

package limits

// bounds are smaller than without the race detector, which makes the search ten times slower.
var bounds = []budget{
	{calls: 2, kinds: all, silences: 1, flushes: 1},
	{calls: 2, kinds: all, silences: 1, crashes: 1, skips: 1},
	{calls: 2, kinds: all, steps: 1},
	{calls: 2, kinds: all, mutes: 1},
}

// smaller bounds are those of the replay, the fewest claims first.
var smaller = []budget{{calls: 2, kinds: all, silences: 1}}

// sparing says that each call of a script is replayed in one variant only.
const sparing = true
