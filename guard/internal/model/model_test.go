package model

import (
	"fmt"
	"testing"

	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

var protocol = modeltest.Model[rules, state, owner, budget]{
	Steps:  steps,
	Start:  func(b budget) state { return state{now: gap, budget: b} },
	Owners: owners,
	Who:    func(o owner) string { return fmt.Sprintf("%c%d", 'A'+rune(o)/slots, o%slots+1) },
	Tidy: func(r *rules, s *state) {
		s.tidy(r)
		s.check()
	},
	Print:  (*state).print,
	Broken: func(s *state) modeltest.Property { return s.broken },
	Quiet:  (*state).quiet,
}

// bounds are explored to the last state.
var bounds = modeltest.Bounds[budget]{
	Small: []budget{
		{calls: 3},
		{calls: 3, mutes: 1},
		{calls: 2, silences: 1, crashes: 1},
		{calls: 2, silences: 1, flushes: 1, steps: 1, skips: 1},
		{calls: 2, silences: 1, keeps: 1, revokes: 1},
		{calls: 2, keeps: 1, steps: 1},
		{kinds: all, calls: 2, silences: 1, flushes: 1},
		{kinds: all, calls: 2, silences: 1, crashes: 1, skips: 1},
		{kinds: all, calls: 2, steps: 1},
		{kinds: all, calls: 2, mutes: 1},
	},
	Large: []budget{
		{calls: 4, silences: 2},
		{calls: 3, silences: 3},
		{calls: 3, silences: 2, crashes: 2},
		{calls: 4, silences: 1, skips: 1},
		{calls: 3, silences: 1, flushes: 1, steps: 1},
		{calls: 2, silences: 1, crashes: 1, keeps: 2, revokes: 1, flushes: 1},
		{calls: 3, silences: 1, mutes: 1},
		{kinds: all, calls: 3, silences: 1},
		{kinds: all, calls: 3, crashes: 2},
		{kinds: all, calls: 3, steps: 1},
		{kinds: all, calls: 2, silences: 3, flushes: 1},
		{kinds: alone | readers, calls: 3, mutes: 1},
		{kinds: alone | pairs | readers, calls: 4},
	},
}

// replayed are the bounds of the replay, which sees few with -short. Some have a flush because tidy forgets an acquire
// that a tombstone stops, unless a flush may take the tombstone away.
var replayed = []budget{
	{calls: 2, silences: 1, keeps: 1, revokes: 1},
	{calls: 3, mutes: 1},
	{kinds: alone | pairs | readers, calls: 2, steps: 1},
	{calls: 3, steps: 1},
	{calls: 3, silences: 1},
	{calls: 3, keeps: 1, steps: 1},
	{calls: 2, silences: 1, flushes: 1, steps: 1},
	{kinds: all, calls: 2, silences: 1, flushes: 1},
	{kinds: all, calls: 3},
}

func TestProtocol(t *testing.T) { protocol.Protocol(t, bounds) }

type row = modeltest.Row[rules, budget]

var breaking = modeltest.Breaking[rules, budget]

// broken are the rules, each broken, with what that does.
var broken = []row{
	breaking(rules{releaseFreesAnyones: true}, unheld, budget{calls: 3}),
	breaking(rules{releaseForgetsFence: true}, fences, budget{calls: 2, steps: 1}),
	breaking(rules{endForgetsTombstones: true}, zombie, budget{calls: 2, silences: 1}, budget{kinds: all, calls: 2, silences: 1}),
	breaking(rules{takeBarges: true}, order, budget{calls: 3}),
	breaking(rules{fenceIgnoresEnded: true}, fences, budget{calls: 2, steps: 1}),
	breaking(rules{takeIgnoresClock: true}, fences, budget{calls: 2, flushes: 1}),
	breaking(rules{grantHasNoEnd: true}, stuck, budget{calls: 3, crashes: 1}, budget{kinds: alone | readers, calls: 3, crashes: 1}),
	breaking(rules{joinForgetsPlace: true}, order, budget{calls: 2}, budget{kinds: all, calls: 3}),
	breaking(rules{joinKeepsWorsePlace: true}, order, budget{calls: 2, silences: 1}, budget{kinds: all, calls: 3, silences: 1}),
	breaking(rules{confirmsAnyFence: true}, fences, budget{calls: 3, silences: 1, steps: 1}),
	breaking(rules{restIsIgnored: true}, early, budget{calls: 2, keeps: 1}),
	breaking(rules{lostKeeps: true}, kept, budget{calls: 1, keeps: 1}),
	breaking(rules{revokedRests: true}, revived, budget{calls: 1, keeps: 1, revokes: 1}),
	breaking(rules{confirmsRevoked: true}, revived, budget{calls: 2, revokes: 1}),
	breaking(rules{renewsRevoked: true}, revived, budget{calls: 1, revokes: 1}),
	breaking(rules{mutesAreDead: true}, order, budget{calls: 3, mutes: 1}, budget{kinds: alone | readers, calls: 3, mutes: 1}),
	breaking(rules{ownLimitIsIgnored: true}, mutex, budget{kinds: all, calls: 3}),
	breaking(rules{limitInsideIsIgnored: true}, mutex, budget{kinds: all, calls: 3}),
	breaking(rules{liveAreDropped: true}, unheld, budget{kinds: all, calls: 3, crashes: 1}),
	breaking(rules{hashEndsWithOne: true}, unheld, budget{kinds: all, calls: 3}),
	breaking(rules{fencesRepeat: true}, fences, budget{kinds: all, calls: 3, steps: 1}),
	breaking(rules{grantForgetsFence: true}, fences, budget{calls: 2, crashes: 1, steps: 1}),
	breaking(rules{passesTheQueue: true}, order, budget{kinds: all, calls: 3}),
	breaking(rules{renewalRevives: true}, revived, budget{kinds: all, calls: 2, silences: 1}),
	breaking(rules{renewalIgnoresFence: true}, silent, budget{kinds: all, calls: 2, silences: 1, flushes: 1}),
	breaking(rules{trustsLateAnswers: true}, unheld, budget{calls: 2}, budget{kinds: all, calls: 2}),
	breaking(rules{neverTombstones: true}, zombie, budget{calls: 1, silences: 1}, budget{kinds: all, calls: 1, silences: 1}),
	breaking(rules{dropsFloor: true}, fences, budget{calls: 3, steps: 1}),
	breaking(rules{ignoresHighWater: true}, fences, budget{calls: 2, steps: 1}, budget{kinds: all, calls: 2, steps: 1}),
	breaking(rules{releasesCarelessly: true}, fences, budget{calls: 3, steps: 1}),
	breaking(rules{outrunsClock: true}, fences, budget{calls: 3}),
	breaking(rules{handsOnAhead: true}, fences, budget{calls: 3, steps: 1}),
	breaking(rules{handsOnKept: true}, early, budget{calls: 2, keeps: 1}),
}

// TestBrokenRules shows what each rule is for: without it, something breaks. With -v, it
// gives the shortest way to it.
func TestBrokenRules(t *testing.T) { protocol.BrokenRules(t, broken) }
