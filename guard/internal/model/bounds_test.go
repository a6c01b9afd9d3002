//go:build !race

package model

// bounds are explored to the last state, 7.4 million in all.
var bounds = []budget{
	{calls: 5, silences: 1},
	{calls: 4, silences: 2},
	{calls: 3, silences: 3},
	{calls: 3, silences: 2, crashes: 2},
	{calls: 4, silences: 1, skips: 1},
	{calls: 3, silences: 1, crashes: 1, flushes: 1},
	{calls: 3, silences: 1, flushes: 1, steps: 1},
	{calls: 3, silences: 2, keeps: 1},
	{calls: 3, silences: 1, keeps: 1, revokes: 1},
	{calls: 2, silences: 1, crashes: 1, keeps: 2, revokes: 1, flushes: 1},
	{calls: 3, silences: 1, breaks: 1},
	{calls: 2, silences: 1, breaks: 1, keeps: 1, steps: 1},
	{calls: 3, silences: 1, mutes: 1},
	{calls: 3, crashes: 1, mutes: 1},
	{calls: 2, silences: 1, mutes: 2, skips: 1},
}

// sparing is for the race detector. Here each call of a script is replayed in all variants.
const sparing = false

// smaller bounds are for what is not about states.
var smaller = []budget{
	{calls: 3, silences: 1, steps: 1},
	{calls: 3, silences: 2},
	{calls: 2, silences: 1, flushes: 1, steps: 1, skips: 1},
	{calls: 2, silences: 1, keeps: 1, revokes: 1},
	{calls: 3, keeps: 1, steps: 1},
	{calls: 3, mutes: 1},
	{calls: 2, silences: 1, mutes: 2},
}
