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

// What three servers say to a release, and what that comes to. Nobody waits for a server that
// hangs beside two that decide.
func TestRelease_NeedsAMajority(t *testing.T) {
	says := func(r guardstore.ReleaseReply) func(*fake) {
		return func(f *fake) { f.release = func(guardstore.Release) guardstore.ReleaseReply { return r } }
	}
	done, again := says(guardstore.ReleaseReply{Status: guardstore.ReleaseDone}), says(guardstore.ReleaseReply{Status: guardstore.ReleaseAlready})
	lost, revoked := says(guardstore.ReleaseReply{Status: guardstore.ReleaseLost}), says(guardstore.ReleaseReply{Status: guardstore.ReleaseRevoked})
	kept := says(guardstore.ReleaseReply{Status: guardstore.ReleaseDone, HeldOver: true})
	down := func(f *fake) { f.before["release"] = fails(errBroken) }
	hung := func(f *fake) { f.before["release"] = hangs }
	reply := func(status guardstore.ReleaseStatus) guardstore.ReleaseReply {
		return guardstore.ReleaseReply{Status: status}
	}
	for name, c := range map[string]struct {
		servers [3]func(*fake)
		want    guardstore.ReleaseReply
		err     string
	}{
		"all":                       {servers: [3]func(*fake){done, done, done}, want: reply(guardstore.ReleaseDone)},
		"two, one hangs":            {servers: [3]func(*fake){done, hung, done}, want: reply(guardstore.ReleaseDone)},
		"two, one lost it":          {servers: [3]func(*fake){lost, done, done}, want: reply(guardstore.ReleaseDone)},
		"one, one before":           {servers: [3]func(*fake){again, done, hung}, want: reply(guardstore.ReleaseDone)},
		"one, one lost, one down":   {servers: [3]func(*fake){done, lost, down}, err: "1 of 3 servers failed"},
		"one, two down":             {servers: [3]func(*fake){done, down, down}, err: "2 of 3 servers failed"},
		"before":                    {servers: [3]func(*fake){again, again, hung}, want: reply(guardstore.ReleaseAlready)},
		"two lost":                  {servers: [3]func(*fake){done, lost, lost}, want: reply(guardstore.ReleaseLost)},
		"two lost, one hangs":       {servers: [3]func(*fake){hung, lost, lost}, want: reply(guardstore.ReleaseLost)},
		"one revoked":               {servers: [3]func(*fake){revoked, done, done}, want: reply(guardstore.ReleaseDone)},
		"two revoked":               {servers: [3]func(*fake){revoked, done, revoked}, want: reply(guardstore.ReleaseRevoked)},
		"two revoked, one hangs":    {servers: [3]func(*fake){revoked, hung, revoked}, want: reply(guardstore.ReleaseRevoked)},
		"one revoked, one is down":  {servers: [3]func(*fake){revoked, down, done}, want: reply(guardstore.ReleaseDone)},
		"kept by one":               {servers: [3]func(*fake){kept, done, done}, want: reply(guardstore.ReleaseDone)},
		"kept by two, one hangs":    {servers: [3]func(*fake){kept, kept, hung}, want: guardstore.ReleaseReply{Status: guardstore.ReleaseDone, HeldOver: true}},
		"kept by one, one revoked ": {servers: [3]func(*fake){kept, revoked, down}, want: reply(guardstore.ReleaseDone)},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, s *fakeQuorum) {
				g := s.hold(t)
				for i, f := range s.nodes {
					f.set(c.servers[i])
				}
				var r guardstore.ReleaseReply
				var err error
				assert.Zero(t, takes(func() { r, err = s.Release(t.Context(), releaseOf(g)) }))
				assert.Equal(t, c.want, r)
				if c.err != "" {
					require.ErrorContains(t, err, c.err)
				} else {
					require.NoError(t, err)
				}
				synctest.Wait()
				assert.Equal(t, []int{1, 1, 1}, s.counts("release a-1~1"), "all are asked, by the round's owner")
				assert.Nil(t, s.round(g.Owner))
				assert.Zero(t, s.known())
			})
		})
	}
}

// Five servers, so that more than one may be lost, or revoked, beside a majority.
func TestRelease_OnFive(t *testing.T) {
	for name, c := range map[string]struct {
		lost, revoked int
		want          guardstore.ReleaseStatus
	}{
		"two lost":      {2, 0, guardstore.ReleaseDone},
		"three lost":    {3, 0, guardstore.ReleaseLost},
		"two revoked":   {0, 2, guardstore.ReleaseDone},
		"three revoked": {0, 3, guardstore.ReleaseRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeQuorum(t, 5, false)
				g := s.hold(t)
				for i, f := range s.nodes {
					if i < c.revoked {
						f.on("release", late(nil)) // so that others do not decide without it
					}
					f.release = func(guardstore.Release) guardstore.ReleaseReply {
						switch {
						case i < c.lost:
							return guardstore.ReleaseReply{Status: guardstore.ReleaseLost}
						case i < c.revoked:
							return guardstore.ReleaseReply{Status: guardstore.ReleaseRevoked}
						}
						return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}
					}
				}
				r, err := s.Release(t.Context(), releaseOf(g))
				require.NoError(t, err)
				assert.Equal(t, c.want, r.Status)
			})
		})
	}
}

// What is released leaves no tombstone, unless something may be on its way.
func TestRelease_Tombstones(t *testing.T) {
	tombstones := func(s *fakeQuorum) (got []bool) {
		synctest.Wait()
		for _, f := range s.nodes {
			calls := f.calls("release")
			got = append(got, calls[len(calls)-1].release.Tombstone)
		}
		return got
	}
	t.Run("in peace", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			_, err := s.Release(t.Context(), releaseOf(g))
			require.NoError(t, err)
			assert.Equal(t, []bool{false, false, false}, tombstones(s))
		})
	})
	t.Run("as asked for", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			r := releaseOf(g)
			r.Tombstone = true
			_, err := s.Release(t.Context(), r)
			require.NoError(t, err)
			assert.Equal(t, []bool{true, true, true}, tombstones(s))
		})
	})
	t.Run("an acquire is on its way", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].on("acquire", func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute) // it lands then
				return nil
			})
			g := s.hold(t)
			_, err := s.Release(t.Context(), releaseOf(g))
			require.NoError(t, err)
			time.Sleep(nodeTimeout)
			assert.Equal(t, []bool{true, false, false}, tombstones(s))
			time.Sleep(2 * time.Minute)
			assert.Equal(t, []string{"", "", ""}, s.holders())
		})
	})
	t.Run("repeated", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			for _, want := range []bool{false, true} {
				_, err := s.Release(t.Context(), releaseOf(g))
				require.NoError(t, err)
				assert.Equal(t, []bool{want, want, want}, tombstones(s))
			}
		})
	})
	t.Run("of what never held", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			_, err := s.Release(t.Context(), guardstore.Release{Key: "k", Owner: "a-1", TTL: leaseTTL})
			require.NoError(t, err)
			assert.Equal(t, []bool{false, false, false}, tombstones(s))
		})
	})
}

// A release waits for a server that has not answered the acquire: until it does, or time is up,
// or the store closes.
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
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, s *fakeQuorum) {
				s.nodes[0].on("acquire", c.acquire)
				g := s.hold(t)
				begun := time.Now()
				_, err := s.Release(t.Context(), releaseOf(g))
				require.NoError(t, err)
				assert.Zero(t, time.Since(begun))
				synctest.Wait()
				assert.Equal(t, []int{0, 1, 1}, s.counts("release"))
				if c.closes {
					require.NoError(t, s.Close())
				} else {
					time.Sleep(c.after)
					synctest.Wait()
				}
				calls := s.nodes[0].calls("release")
				require.NotEmpty(t, calls)
				assert.Equal(t, c.after, calls[0].at.Sub(begun))
				assert.Equal(t, c.tombstone, calls[0].release.Tombstone)
				time.Sleep(10 * nodeTimeout)
			})
		})
	}
}

// A server that is down is asked again until it answers.
func TestRelease_IsRepeated(t *testing.T) {
	t.Run("a hold", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			s.nodes[0].on("release", fails(errBroken))
			_, err := s.Release(t.Context(), releaseOf(g))
			require.NoError(t, err)
			time.Sleep(nodeTimeout)
			s.nodes[0].on("release", nil)
			time.Sleep(nodeTimeout)
			assert.Empty(t, s.nodes[0].heldBy())
			assert.Zero(t, s.nodes[0].count("release a-1 "))
		})
	})
	t.Run("what was lost", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			s.nodes[0].wipe()
			s.nodes[0].on("release", fails(errBroken))
			_, err := s.Release(t.Context(), releaseOf(g))
			require.NoError(t, err)
			synctest.Wait()
			s.nodes[0].on("release", nil)
			time.Sleep(nodeTimeout)
			assert.Equal(t, 2, s.nodes[0].count("release"))
		})
	})
	t.Run("refused", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			s.nodes[0].on("release", fails(errRefused))
			_, err := s.Release(t.Context(), releaseOf(g))
			require.NoError(t, err)
			time.Sleep(nodeTimeout)
			assert.Equal(t, 1, s.nodes[0].count("release"), "that is an answer")
		})
	})
	t.Run("of no concern", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.take(0)
			g := s.hold(t)
			s.nodes[0].on("release", fails(errBroken))
			_, err := s.Release(t.Context(), releaseOf(g))
			require.NoError(t, err)
			time.Sleep(nodeTimeout)
			assert.Equal(t, 1, s.nodes[0].count("release"), "it never held")
		})
	})
	t.Run("of a claim that is not known", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].on("release", fails(errBroken))
			_, err := s.Release(t.Context(), guardstore.Release{Key: "k", Owner: "a-1", TTL: leaseTTL, Tombstone: true})
			require.NoError(t, err)
			time.Sleep(nodeTimeout)
			assert.Greater(t, s.nodes[0].count("release"), 2)
		})
	})
	t.Run("for as long as the hold may last", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			s.nodes[0].on("release", fails(errBroken))
			begun := time.Now()
			_, err := s.Release(t.Context(), releaseOf(g))
			require.NoError(t, err)
			time.Sleep(time.Minute)
			calls := s.nodes[0].calls("release")
			took := calls[len(calls)-1].at.Sub(begun)
			assert.InDelta(t, nodeTimeout+leaseTTL, took, float64(2*outboxLongestPause))
		})
	})
	t.Run("though its caller leaves", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			s.nodes[0].on("release", fails(errBroken))
			ctx, cancel := context.WithCancel(t.Context())
			_, err := s.Release(ctx, releaseOf(g))
			cancel()
			require.NoError(t, err)
			synctest.Wait()
			s.nodes[0].on("release", nil)
			time.Sleep(nodeTimeout)
			assert.Empty(t, s.nodes[0].heldBy())
		})
	})
}
