//go:build race

package records

// bounds are smaller than without the race detector, which makes the search ten times slower.
var bounds = []budget{
	{calls: 2, inputs: 2, waits: true, silences: 1},
	{calls: 2, inputs: 2, waits: true, crashes: 1, losses: 1, forgets: 1},
}

// breaking bounds are not searched.
var breaking []budget

// replayed bounds are those of the replay.
var replayed = []budget{{calls: 2, inputs: 1, waits: true, silences: 1, forgets: 1}}

// sparing is for the race detector.
const sparing = true
