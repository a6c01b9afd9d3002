package quorum

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
)

func TestRelease_NeedsAMajority(t *testing.T) {
	says := func(status guardstore.ReleaseStatus) change { return says(releaseReply{Status: status}) }
	done, lost, revoked := says(guardstore.ReleaseDone), says(guardstore.ReleaseLost), says(guardstore.ReleaseRevoked)
	kept := func(f *fake) { f.release = &releaseReply{Status: guardstore.ReleaseDone, HeldOver: true} }
	down, hung := does("release", fails(errBroken)), does("release", hangs)
	late := func(c change) change { return both(c, does("release", late(nil))) } // others do not decide without it
	reply := func(status guardstore.ReleaseStatus) releaseReply { return releaseReply{Status: status} }
	for name, c := range map[string]struct {
		servers []change
		all     bool
		want    releaseReply
		err     string
	}{
		"two, one hangs":           {[]change{done, hung, done}, false, reply(guardstore.ReleaseDone), ""},
		"two, one lost it":         {[]change{lost, done, done}, false, reply(guardstore.ReleaseDone), ""},
		"one, one lost, one down":  {[]change{done, lost, down}, false, releaseReply{}, "1 of 3 servers failed"},
		"two lost, one hangs":      {[]change{hung, lost, lost}, false, reply(guardstore.ReleaseLost), ""},
		"one revoked":              {[]change{revoked, done, done}, false, reply(guardstore.ReleaseDone), ""},
		"two revoked, one hangs":   {[]change{revoked, hung, revoked}, false, reply(guardstore.ReleaseRevoked), ""},
		"kept by one":              {[]change{kept, done, done}, false, reply(guardstore.ReleaseDone), ""},
		"kept by two, one hangs":   {[]change{kept, kept, hung}, false, releaseReply{Status: guardstore.ReleaseDone, HeldOver: true}, ""},
		"kept by one, one revoked": {[]change{kept, revoked, down}, false, reply(guardstore.ReleaseDone), ""},
		"two of five revoked":      {[]change{late(revoked), late(revoked), done, done, done}, false, reply(guardstore.ReleaseDone), ""},
		"three of five revoked":    {[]change{late(revoked), late(revoked), late(revoked), done, done}, false, reply(guardstore.ReleaseRevoked), ""},
		"three of five, one hangs": {[]change{done, late(revoked), late(revoked), late(revoked), hung}, false, reply(guardstore.ReleaseRevoked), ""},
		"all: one revoked":         {[]change{revoked, late(done), late(done)}, true, reply(guardstore.ReleaseRevoked), ""},
	} {
		run(t, name, len(c.servers), c.all, func(t *testing.T, s *fakeQuorum) {
			g := s.hold()
			s.script(c.servers...)
			var r releaseReply
			var err error
			assert.LessOrEqual(t, takes(func() { r, err = s.Release(t.Context(), releaseOf(g)) }), time.Millisecond)
			assert.Equal(t, c.want, r)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			s.counts("release a-1~1", []int{1, 1, 1, 1, 1}[:len(c.servers)]...)
			s.known(0)
		})
	}
}

// A release leaves no tombstone, unless a command may be on its way.
func TestRelease_LeavesATombstoneForWhatMayComeYet(t *testing.T) {
	tombstones := func(s *fakeQuorum, want ...bool) {
		s.t.Helper()
		synctest.Wait()
		for i, f := range s.nodes {
			assert.Equal(s.t, want[i], f.lastCall("release").release.Tombstone)
		}
	}
	run(t, "in peace, then repeated", 3, false, func(_ *testing.T, s *fakeQuorum) {
		g := s.hold()
		s.mustRelease(g)
		tombstones(s, false, false, false)
		s.mustRelease(g)
		tombstones(s, true, true, true)
	})
	run(t, "as asked for", 3, false, func(t *testing.T, s *fakeQuorum) {
		r := releaseOf(s.hold())
		r.Tombstone = true
		_, err := s.Release(t.Context(), r)
		require.NoError(t, err)
		tombstones(s, true, true, true)
	})
	run(t, "of what never held", 3, false, func(_ *testing.T, s *fakeQuorum) {
		s.releaseClaim("a-1", false)
		tombstones(s, false, false, false)
	})
}

// A release waits for a server that has not answered the acquire: until it does, time is up, or the store closes.
func TestRelease_WaitsForTheAcquire(t *testing.T) {
	for name, c := range map[string]struct {
		acquire   func(context.Context) error
		after     time.Duration
		closes    bool
		tombstone bool
	}{
		"answered": {acquire: slow(nodeTimeout / 4), after: nodeTimeout / 4},
		"late":     {acquire: func(context.Context) error { time.Sleep(2 * nodeTimeout); return errBroken }, after: nodeTimeout, tombstone: true},
		"closing":  {acquire: slow(nodeTimeout / 4), closes: true, tombstone: true},
	} {
		run(t, name, 3, false, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].set(does("acquire", c.acquire))
			g := s.hold()
			begun := time.Now()
			s.mustRelease(g)
			assert.Zero(t, time.Since(begun))
			s.counts("release", 0, 1, 1)
			if c.closes {
				require.NoError(t, s.Close())
			} else {
				time.Sleep(c.after)
				synctest.Wait()
			}
			first := s.nodes[0].calls("release")[0]
			assert.Equal(t, c.after, first.at.Sub(begun))
			assert.Equal(t, c.tombstone, first.release.Tombstone)
			time.Sleep(10 * nodeTimeout)
		})
	}
}

// A server that is down is asked again until it answers.
func TestRelease_IsRepeated(t *testing.T) {
	run(t, "though its caller leaves", 3, false, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		s.nodes[0].set(does("release", fails(errBroken)))
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.Release(ctx, releaseOf(g))
		cancel()
		require.NoError(t, err)
		time.Sleep(nodeTimeout)
		s.nodes[0].set(does("release", nil))
		time.Sleep(nodeTimeout)
		s.holders("", "", "")
		assert.Zero(t, s.nodes[0].count("release a-1 "))
	})
	run(t, "for as long as the hold may last", 3, false, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		s.nodes[0].set(does("release", fails(errBroken)))
		begun := time.Now()
		s.mustRelease(g)
		time.Sleep(time.Minute)
		took := s.nodes[0].lastCall("release").at.Sub(begun)
		assert.InDelta(t, nodeTimeout+leaseTTL, took, float64(2*outboxLongestPause))
	})
	run(t, "of a claim that is not known", 3, false, func(t *testing.T, s *fakeQuorum) {
		s.nodes[0].set(does("release", fails(errBroken)))
		s.releaseClaim("a-1", true)
		time.Sleep(nodeTimeout)
		assert.Greater(t, s.nodes[0].count("release"), 2)
	})
	for name, c := range map[string]struct {
		before, first, later change
		calls                int
	}{
		"until it says that the hold was lost": {nothing, both(wiped, does("release", fails(errBroken))), does("release", nil), 2},
		"not if it is refused":                 {nothing, does("release", fails(errRefused)), nothing, 1},
		"not if it never held":                 {taken, does("release", fails(errBroken)), nothing, 1},
	} {
		run(t, name, 3, false, func(_ *testing.T, s *fakeQuorum) {
			s.nodes[0].set(c.before)
			g := s.hold()
			s.nodes[0].set(c.first)
			s.mustRelease(g)
			synctest.Wait()
			s.nodes[0].set(c.later)
			time.Sleep(nodeTimeout)
			s.counts("release", c.calls, 1, 1)
		})
	}
}
