package main

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The workers of the tests are the test binary.
func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		os.Exit(work())
	}
	goleak.VerifyTestMain(m)
}

// played returns what a scenario shows of redlatch.
func played(t *testing.T, name string) verdict {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("REDLATCH_REQUIRE_REDIS") == "" {
		t.Skip("redis-server is not installed")
	}
	o, err := parseOptions([]string{"-only", name, "-rounds", "1", "-libraries", ours})
	require.NoError(t, err)
	require.Len(t, o.scenarios, 1)
	verdicts, err := o.scenarios[0].play(o)
	require.NoError(t, err)
	return verdicts[ours]
}

func TestFaults_DeletedKeyIsALossThatTheFenceContains(t *testing.T) {
	v := played(t, "deleted")
	assert.Equal(t, "ErrLost", v.Told)
	assert.Equal(t, "gets in; the fence refuses it", v.Late)
	assert.Equal(t, "at once", v.Next)
	assert.NotEqual(t, "no", v.Two)
}

func TestFaults_LostReplyToAReleaseIsNoError(t *testing.T) {
	v := played(t, "lost-release")
	assert.Equal(t, "no", v.Two)
	assert.Equal(t, "no error, has it at once", v.Told)
}

func TestFaults_WitnessCountsWhatALaterCallMakesLate(t *testing.T) {
	w := newWitness()
	say := func(call int, kind string, fence uint64) { w.hear(ours, event{Call: call, Kind: kind, Fence: fence}) }
	say(1, asked, 0)
	say(2, asked, 0)
	say(3, asked, 0)
	say(1, begun, 7)
	say(1, wrote, 7)
	say(3, begun, 8)
	say(1, wrote, 7)
	say(3, ended, 0)
	say(1, wrote, 7)
	first := w.of(ours, 1)
	assert.Equal(t, []int{2, 1, 2}, []int{first.late, first.together, first.stale})
	assert.Equal(t, 1, w.of(ours, 2).overtaken)
	assert.Zero(t, w.of(ours, 3).late)
	require.ErrorIs(t, w.await(ours, 2, time.Millisecond, func(c call) bool { return !c.begun.IsZero() }), errNever)
}

func TestFaults_VerdictOfATakeover(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }
	s := &scene{harmed: at(0)}
	for name, c := range map[string]struct {
		first, second             call
		two, notified, lateWrites string
	}{
		"in time":  {call{noticed: at(1600)}, call{begun: at(1800)}, "no", "in time, within 1 ttl", "none"},
		"a race":   {call{noticed: at(20)}, call{begun: at(1)}, "a moment at most", "at once", "may get in; no fence"},
		"late":     {call{noticed: at(480), late: 20, together: 20}, call{begun: at(1)}, "up to ½ ttl", "within ½ ttl", "gets in; no fence"},
		"never":    {call{ended: at(9000), late: 400, together: 300}, call{begun: at(1)}, "longer than 1 ttl", "no", "gets in; no fence"},
		"fenced":   {call{noticed: at(480), late: 9, stale: 9, fence: 1}, call{begun: at(1)}, "no", "within ½ ttl", "gets in; the fence refuses it"},
		"unfenced": {call{noticed: at(480), late: 9, stale: 8, fence: 1}, call{begun: at(1)}, "no", "within ½ ttl", "gets in; the fence lets it in"},
		"killed":   {call{}, call{begun: at(1)}, "no", none, "none"},
	} {
		v := s.verdict(c.first, c.second)
		assert.Equal(t, []string{c.two, c.notified, c.lateWrites}, []string{v.Two, v.Notified, v.Late}, name)
	}
}
