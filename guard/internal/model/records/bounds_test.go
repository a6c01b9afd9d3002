//go:build !race

package records

// bounds are explored to the last state. They are those of make test.
var bounds = []budget{
	{calls: 3, inputs: 2, waits: true, crashes: 1},
	{calls: 3, inputs: 1, waits: true, losses: 1},
	{calls: 3, inputs: 1, crashes: 1, losses: 1, forgets: 1},
	{calls: 3, inputs: 1, waits: true, silences: 1},
	{calls: 2, inputs: 2, silences: 2},
	{calls: 2, inputs: 1, silences: 1, crashes: 1, losses: 1, forgets: 1},
}

// breaking bounds are those in which a broken rule shows, the smallest first.
var breaking = []budget{
	{calls: 2, inputs: 2, waits: true, silences: 1},
	{calls: 2, inputs: 1, losses: 1, forgets: 1},
	{calls: 3, inputs: 1},
}

// replayed bounds are those of the replay.
var replayed = []budget{
	{calls: 2, inputs: 2, waits: true, silences: 1},
	{calls: 2, inputs: 1, silences: 1, losses: 1, forgets: 1},
	{calls: 3, inputs: 1, waits: true},
}

// sparing is for the race detector.
const sparing = false
