package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

var epoch = time.Unix(1, 0)

func at(ms int64) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// got are grants to a caller that asked and had its lock at these ms.
func got(all ...[2]int64) (grants []grant) {
	for _, g := range all {
		grants = append(grants, grant{at(g[0]).UnixNano(), at(g[1]).UnixNano()})
	}
	return grants
}

func TestRecovery_OfCallers(t *testing.T) {
	o := outage{down: at(100), back: at(200), end: at(1000)}
	r := newRecovery(&scenario{}, "")
	first, slow, never := got([2]int64{1, 2}, [2]int64{40, 210}, [2]int64{220, 221}), got([2]int64{1, 2}, [2]int64{90, 350}), got([2]int64{1, 2})
	jobs := []job{{Library: ours}, {Library: "redsync"}}
	require.NoError(t, r.add(jobs, []report{{Grants: [][]grant{slow, first}}, {Grants: [][]grant{first, never}}}, o))
	assert.Equal(t, []float64{10}, r.first.values[ours])
	assert.Equal(t, []float64{150}, r.last.values[ours])
	assert.Equal(t, []float64{800}, r.last.values["redsync"], "who has none counts with what it waited")

	early := got([2]int64{1, 2}, [2]int64{40, 199})
	require.NoError(t, r.add(jobs[:1], []report{{Grants: [][]grant{early}}}, o))
	assert.Equal(t, []float64{10, 0}, r.first.values[ours], "it was faster than whoever looked")
	for _, idle := range [][]grant{nil, got([2]int64{1, 210})} {
		require.ErrorIs(t, r.add(jobs[:1], []report{{Grants: [][]grant{idle}}}, o), errIdle)
	}
}

func TestRecovery_ThroughALoss(t *testing.T) {
	for name, c := range map[string]struct {
		all          []grant
		gap, typical int64
	}{
		"the longest is between two": {got([2]int64{0, 5}, [2]int64{99, 101}, [2]int64{110, 150}, [2]int64{151, 152}, [2]int64{160, 170}), 49, 10},
		"it is before the first":     {got([2]int64{0, 5}, [2]int64{90, 190}, [2]int64{191, 192}), 90, 100},
		"it is after the last":       {got([2]int64{0, 5}, [2]int64{101, 102}), 98, 1},
		"what came later ends it":    {got([2]int64{0, 5}, [2]int64{101, 102}, [2]int64{103, 900}), 98, 797},
		"there is none":              {got([2]int64{0, 5}), 100, 100},
	} {
		gap, typical := through(c.all, at(100), at(200))
		assert.Equal(t, []int64{c.gap, c.typical}, []int64{gap.Milliseconds(), typical.Milliseconds()}, name)
	}
}

// A fault comes when all are set up: a caller that had no lock yet says nothing about it.
func TestRecovery_SetUpGivesEachCallerALock(t *testing.T) {
	s := redistest.Start(t)
	for _, name := range libraries {
		ctx, cancel := context.WithCancel(t.Context())
		var setUp time.Time
		r, err := wanting(ctx, job{Kind: "wanting", Library: name, Callers: wanters, Addr: s.Addr()}, s.Client(t), func() { setUp = time.Now(); cancel() })
		require.NoError(t, err, name)
		for _, all := range r.Grants {
			require.NotEmpty(t, all, name)
			assert.LessOrEqual(t, all[0].Begun, setUp.UnixNano(), name)
		}
	}
}
