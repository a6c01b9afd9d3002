//go:build race

package model

// bounds are smaller than without the race detector, which makes the search ten times
// slower.
var bounds = []budget{
	{calls: 4},
	{calls: 3, silences: 1, crashes: 1},
	{calls: 2, silences: 2, flushes: 1},
	{calls: 2, silences: 1, flushes: 1, steps: 1, skips: 1},
	{calls: 2, silences: 1, keeps: 1, revokes: 1},
	{calls: 2, breaks: 1, keeps: 1, steps: 1},
	{calls: 2, silences: 1, mutes: 1},
	{calls: 3, mutes: 1},
}

// sparing says that every second call of a script is replayed in its plainest variant only.
const sparing = true

// smaller has a flush because tidy forgets an acquire that a tombstone stops, unless a flush may
// take the tombstone away.
var smaller = []budget{
	{calls: 3, steps: 1},
	{calls: 2, silences: 1},
	{calls: 1, silences: 1, flushes: 1},
	{calls: 2, mutes: 1},
	{calls: 2, keeps: 1, revokes: 1},
}
