package main

import (
	"cmp"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The workers of the tests are the test binary.
func TestMain(m *testing.M) {
	if isWorker() {
		os.Exit(work())
	}
	goleak.VerifyTestMain(m)
}

// Everything runs, each library gives a figure wherever it has one, and the figures
// that do not depend on the machine are right. Speeds do not count here.
func TestSmoke_EveryScenarioRuns(t *testing.T) {
	if _, err := exec.LookPath(cmp.Or(os.Getenv("REDLATCH_REDIS_SERVER"), "redis-server")); err != nil && os.Getenv("REDLATCH_REQUIRE_REDIS") == "" {
		t.Skip("redis-server is not installed")
	}
	t.Setenv("GORACE", "atexit_sleep_ms=0") // there are many workers, and each would take a second to end
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	o := options{scenarios: scenarios, servers: []string{""}, rounds: 1, size: size{30, 20, 500, 3}, profiles: t.TempDir()}
	runs, err := measureAll(ctx, o)
	require.NoError(t, err)
	assert.Contains(t, strings.Join(runs[0].about, "\n"), "go-redis/v9 v9.")
	all := runs[0].results
	require.Len(t, all, len(scenarios))
	require.Len(t, headlines(all), 5)
	for i, line := range headlines(all) {
		assert.Equal(t, len(theHeadlines[i].measures), strings.Count(line, "is first"), line)
	}

	for i, s := range scenarios {
		require.NotEmpty(t, all[i].measures, s.name)
		for _, m := range all[i].measures {
			assert.Contains(t, m.values, ours, "%s: %s", s.name, m.name)
			switch s.name {
			case "held", "turns", "several", "limits", "recovery", "replicas", "big", "quorum":
				continue // not all peers hold on to a lock, let go of one, or have the feature
			}
			for _, peer := range peers {
				assert.Contains(t, m.values, peer, "%s: %s", s.name, m.name)
			}
		}
	}
	assert.InDelta(t, 2, sentIn(all, "solo", ours), 0.5, "one script to acquire, one to release")
	assert.InDelta(t, 2, sentIn(all, "solo", "redsync"), 0.5, "SET NX to acquire, a script to release")
	assert.Less(t, sentIn(all, "hot", ours), 1.5, "most is passed on within the process")
	for _, m := range measures(all, "big") {
		value, _ := m.at(ours)
		assert.Positive(t, value, m.name)
	}
	for _, m := range append(measures(all, "recovery"), measures(all, "quorum")...) {
		assert.Contains(t, m.values, "redsync", m.name)
	}
	for _, m := range measures(all, "waiting") {
		commands, _ := m.at(ours)
		assert.Less(t, commands, 20*1.1+5, m.name)
		polls, _ := m.at("redislock")
		assert.Greater(t, polls, commands, m.name)
	}

	assert.Contains(t, formatResults(runs), "\n| solo     | acquire and release, median µs ")
	profiles, err := filepath.Glob(filepath.Join(o.profiles, "cycles-redlatch-64x1-3.pprof"))
	require.NoError(t, err)
	assert.Len(t, profiles, 1, "a CPU profile of each process")
}

// sentIn is the measure of a scenario that has a value for each library.
func sentIn(all []result, scenario, library string) float64 {
	for _, m := range measures(all, scenario) {
		if v, ok := m.at(library); ok && strings.HasPrefix(m.name, sentPerAcquisition) {
			return v
		}
	}
	return math.NaN()
}
