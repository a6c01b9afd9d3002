package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Any minority may fail, in any way, while callers go on. What loses its data does so
// between two holds: one that a bare majority has for less than a round trip may be lost
// with it.
func TestQuorumFault_QuorumSurvivesAMinority(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, s *redistest.Server){
		"killed":    func(_ *testing.T, s *redistest.Server) { s.Kill() },
		"suspended": func(t *testing.T, s *redistest.Server) { _ = s.Pause(); t.Cleanup(func() { _ = s.Resume() }) },
		"full": func(t *testing.T, s *redistest.Server) {
			require.NoError(t, s.Client(t).ConfigSet(t.Context(), "maxmemory", "1").Err())
		},
		"read-only": func(t *testing.T, s *redistest.Server) {
			require.NoError(t, s.Client(t).ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
		},
		"wiped":      func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Client(t).FlushAll(t.Context()).Err()) },
		"restarted":  func(t *testing.T, s *redistest.Server) { s.Restart(t) },
		"wrong type": func(t *testing.T, s *redistest.Server) { s.Client(t).Set(t.Context(), "guard:{order:42}", "x", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := testenv.NewQuorumEnv(t, 5)
			x := &exclusion{tb: t}
			var all, before sync.WaitGroup
			harmed := make(chan struct{})
			for range 4 {
				g := q.Guard(t, guard.StoreTimeout(4*time.Second))
				for range 25 {
					before.Add(1)
					all.Go(func() {
						assert.NoError(t, g.WithLock(context.Background(), guard.Key("order:42"), x.work))
						before.Done()
						<-harmed
						assert.NoError(t, g.WithLock(context.Background(), guard.Key("order:42"), x.work))
					})
				}
			}
			if name == "wiped" || name == "restarted" {
				before.Wait()
			}
			harm(t, q.Servers[0])
			harm(t, q.Servers[3])
			close(harmed)
			all.Wait()
			assert.EqualValues(t, 200, x.count.Load())
		})
	}
}

// Two servers lose the lock, then two others do: it goes on, because renewals repair
// what a majority holds. Without repair, the second loss ends it.
func TestQuorumFault_QuorumRepairsServersThatCameBackEmpty(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 5)
	g := q.Guard(t)
	everywhere := func() bool { return q.Holders(t, "order:42") == 5 }
	require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), func(ctx context.Context) error {
		for _, wiped := range [][]int{{0, 1}, {2, 3}, {4, 0}} {
			for _, i := range wiped {
				q.Servers[i].Client(t).FlushAll(ctx)
			}
			assert.Eventually(t, everywhere, testenv.Patience, 10*time.Millisecond)
		}
		return ctx.Err()
	}, guard.TTL(time.Second)))
	assert.Eventually(t, func() bool { return q.Holders(t, "order:42") == 0 }, testenv.Patience, 10*time.Millisecond)
}

// Servers that hang execute later what they were sent before. What is theirs to give back
// by then is asked for as long as it may take them.
func TestQuorumFault_QuorumTakesBackWhatHangingServersStillGrant(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	const keys = 16
	each := func(g *guard.Guard, check func(error)) {
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() {
				check(g.WithLock(t.Context(), guard.Keyf("order:%d", i), testenv.Nothing, guard.Wait(10*time.Second)))
			})
		}
		all.Wait()
	}
	free := func() bool {
		n := 0
		for i := range keys {
			n += q.Holders(t, "order:"+strconv.Itoa(i))
		}
		return n == 0
	}
	g := q.Guard(t, guard.StoreTimeout(400*time.Millisecond))
	each(g, func(err error) { assert.NoError(t, err) }) // opens connections
	require.Eventually(t, free, testenv.Patience, 10*time.Millisecond)
	for _, s := range q.Servers {
		require.NoError(t, s.Pause())
	}
	each(g, func(err error) { assert.ErrorIs(t, err, guard.ErrStore) })
	timer := time.NewTimer(6 * time.Second)
	<-timer.C
	for _, s := range q.Servers {
		require.NoError(t, s.Resume())
	}
	each(q.Guard(t), func(err error) { assert.NoError(t, err) })
}

func TestQuorumFault_QuorumLosesWithTheMajority(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	g := q.Guard(t)
	clients := []*redis.Client{q.Servers[0].Client(t), q.Servers[1].Client(t)}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	err := g.WithLock(ctx, guard.Key("order:42"), func(ctx context.Context) error {
		// Again and again: a renewal between the two would repair the first.
		for ctx.Err() == nil {
			for _, client := range clients {
				client.FlushAll(ctx)
			}
		}
		return nil
	}, guard.TTL(time.Second))
	require.ErrorIs(t, err, guard.ErrLost)
	require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), testenv.Nothing))
}

func TestQuorumFault_QuorumDownIsAStoreErrorWithEveryServersReason(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	g := q.Guard(t, guard.StoreTimeout(400*time.Millisecond))
	q.Servers[0].Kill()
	q.Servers[1].Kill()
	err := g.WithLock(t.Context(), guard.Key("order:42"), testenv.Nothing)
	var failure *guard.StoreError
	require.ErrorAs(t, err, &failure)
	assert.Contains(t, err.Error(), "2 of 3 servers failed")
	assert.Contains(t, err.Error(), "connection refused")
}

// Without a majority nobody knows whether a lock is busy: NoWait is a StoreError, and FailOpen
// runs the work, also where a server that is left says that somebody holds the lock.
func TestQuorumFault_QuorumWithoutAMajorityIsNeverBusy(t *testing.T) {
	for name, down := range map[string]func(t *testing.T, s *redistest.Server){
		"killed":    func(_ *testing.T, s *redistest.Server) { s.Kill() },
		"suspended": func(t *testing.T, s *redistest.Server) { _ = s.Pause(); t.Cleanup(func() { _ = s.Resume() }) },
	} {
		for _, held := range []bool{true, false} {
			for _, all := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, held %t, all %t", name, held, all), func(t *testing.T) {
					t.Parallel()
					q := testenv.NewQuorumEnv(t, 3)
					guardOf := q.Guard
					if all {
						guardOf = q.GuardOfAll
					}
					g, other := guardOf(t, guard.StoreTimeout(400*time.Millisecond)), guardOf(t)
					require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing)) // opens connections
					if held {
						_, err := other.Acquire(t.Context(), testenv.Order)
						require.NoError(t, err)
					}
					down(t, q.Servers[1])
					if !all {
						down(t, q.Servers[2])
					}
					var callers sync.WaitGroup
					for range 10 {
						callers.Go(func() {
							err := g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.NoWait())
							assert.ErrorIs(t, err, guard.ErrStore)
							assert.NotErrorIs(t, err, guard.ErrBusy)
						})
						callers.Go(func() {
							assert.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.NoWait(), guard.FailOpen()))
						})
					}
					callers.Wait()
				})
			}
		}
	}
}

// Whoever makes a store closes it, after its Guards: none of both waits for servers that hang, and
// a lease that outlives both is given back all the same.
func TestQuorumFault_QuorumClosesThoughItsServersHang(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	store := q.Store(t)
	g, another := testenv.GuardOnStore(t, store), testenv.GuardOnStore(t, store)
	lease, err := g.Acquire(t.Context(), testenv.Order)
	require.NoError(t, err)
	require.NoError(t, g.Close())
	require.NoError(t, another.WithLock(t.Context(), guard.Key("other"), testenv.Nothing), "the store is open")
	waits := testenv.InBackground(func() error { return another.WithLock(t.Context(), testenv.Order, testenv.Nothing) })
	require.Eventually(t, func() bool { return testenv.Queued(another) == 1 }, testenv.Patience, time.Millisecond)
	for _, s := range q.Servers {
		require.NoError(t, s.Pause())
	}
	closed := testenv.InBackground(func() error { return errors.Join(another.Close(), store.Close()) })
	require.NoError(t, closed(t))
	require.ErrorIs(t, waits(t), guard.ErrClosed)
	for _, s := range q.Servers {
		require.NoError(t, s.Resume())
	}
	require.ErrorIs(t, lease.Release(t.Context()), guard.ErrClosed)
	require.Eventually(t, func() bool { return q.Holders(t, "order:42") == 0 }, testenv.Patience, 10*time.Millisecond)
}

// Nobody holds the lock, one server is down, and the others keep it until its MinHold is over.
func TestQuorumFault_QuorumSaysThatOnlyAMinHoldKeepsTheLock(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	g := q.Guard(t)
	require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.MinHold(time.Minute)))
	q.Servers[0].Kill()
	var busy *guard.BusyError
	require.ErrorAs(t, q.Guard(t).WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.NoWait()), &busy)
	assert.True(t, busy.Done)
	assert.Greater(t, busy.RetryAfter, 30*time.Second)
}

func TestQuorumFault_QuorumAllNeedsAll(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	g := q.GuardOfAll(t, guard.StoreTimeout(400*time.Millisecond))
	require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), func(context.Context) error {
		assert.Equal(t, 3, q.Holders(t, "order:42"))
		return nil
	}))
	q.Servers[2].Kill()
	require.ErrorIs(t, g.WithLock(t.Context(), guard.Key("order:42"), testenv.Nothing), guard.ErrStore)
	assert.Eventually(t, func() bool { return q.Holders(t, "order:42") == 0 }, testenv.Patience, 10*time.Millisecond,
		"what the round got was given back")
}

// A holder keeps a bare majority; two others wait, and could have the remaining servers.
// They look, about once a second, and take nothing: a round of theirs would fail, wake
// the other, and so on.
func TestQuorumFault_QuorumNoRoundsWhileAMajorityIsHeld(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	require.NoError(t, q.Servers[2].Pause())
	holder, others := q.Guard(t), []*guard.Guard{}
	lease, err := holder.Acquire(t.Context(), guard.Key("order:42"), guard.FixedLease())
	require.NoError(t, err)
	require.NoError(t, q.Servers[2].Resume())
	free := q.Servers[2].Client(t)
	require.Eventually(t, func() bool { return free.Ping(t.Context()).Err() == nil }, testenv.Patience, 10*time.Millisecond)
	free.FlushAll(t.Context())
	var all sync.WaitGroup
	for range 2 {
		g := q.Guard(t)
		others = append(others, g)
		all.Go(func() { assert.NoError(t, g.WithLock(context.Background(), guard.Key("order:42"), testenv.Nothing)) })
	}
	waiting := func() bool { return free.ZCard(t.Context(), "guard:{order:42}:wake").Val() == 2 }
	require.Eventually(t, waiting, testenv.Patience, 5*time.Millisecond)
	before := free.Get(t.Context(), "guard:{order:42}:last").Val()
	scripts := q.Scripts(t)
	timer := time.NewTimer(3 * time.Second)
	<-timer.C
	assert.Equal(t, before, free.Get(t.Context(), "guard:{order:42}:last").Val(), "nobody took the free server")
	assert.LessOrEqual(t, q.Scripts(t)-scripts, 2*3*6, "two look at three servers, about once a second")
	require.NoError(t, lease.Release(t.Context()))
	all.Wait()
	assert.Len(t, others, 2)
}

// The end of a grant is told: whoever waits does not come upon it by looking.
func TestQuorumFault_QuorumReleaseWakes(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	a, b := q.Guard(t), q.Guard(t)
	const turns = 20
	begun := time.Now()
	for range turns {
		lease, err := a.Acquire(t.Context(), guard.Key("order:42"))
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() { got <- b.WithLock(context.Background(), guard.Key("order:42"), testenv.Nothing) }()
		require.Eventually(t, func() bool {
			return q.Servers[0].Client(t).ZCard(t.Context(), "guard:{order:42}:wake").Val() == 1
		}, testenv.Patience, time.Millisecond)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, <-got)
	}
	assert.Less(t, time.Since(begun), turns*700*time.Millisecond, "a look each second would take longer")
}

func TestQuorumFault_QuorumFencesAgreeAcrossClocks(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	// One server's fences are an hour ahead, as if its clock were.
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	q.Servers[0].Client(t).Set(t.Context(), "guard:{order:42}:last", ahead+" ", time.Hour)
	g := q.Guard(t)
	lease, err := g.Acquire(t.Context(), guard.Key("order:42"), guard.TTL(200*time.Millisecond), guard.FixedLease())
	require.NoError(t, err)
	high := lease.Fence()
	q.Servers[0].Kill()
	<-lease.Context().Done() // as if its holder had crashed: nothing is released in time
	again := q.Guard(t)
	require.NoError(t, again.WithLock(t.Context(), guard.Key("order:42"), func(ctx context.Context) error {
		fence, _ := guard.Fence(ctx)
		assert.Greater(t, fence, high)
		return nil
	}))
	_ = lease.Release(t.Context())
}

// Two servers are behind the third, by more than their fences show: those are one above the
// last one, which is ahead of their clocks. What the third one minted has to be known to them.
func TestQuorumFault_QuorumFencesAgreeThoughClocksAreBehind(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	const ttl = 200 * time.Millisecond
	last := time.Now().Add(time.Minute)
	for i, s := range q.Servers {
		fence := last
		if i == 0 {
			fence = last.Add(ttl / 4) // less than what has to be told for itself
		}
		s.Client(t).Set(t.Context(), "guard:{order:42}:last", strconv.FormatInt(fence.UnixMicro(), 10)+" ", time.Hour)
	}
	g := q.GuardOfAll(t) // the third is one of those that grant
	lease, err := g.Acquire(t.Context(), guard.Key("order:42"), guard.TTL(ttl), guard.FixedLease())
	require.NoError(t, err)
	high := lease.Fence()
	require.Greater(t, high, uint64(last.Add(ttl/4).UnixMicro())) //nolint:gosec // not negative
	q.Servers[0].Kill()
	<-lease.Context().Done() // as if its holder had crashed: nothing is released in time
	again := q.Guard(t)
	require.NoError(t, again.WithLock(t.Context(), guard.Key("order:42"), func(ctx context.Context) error {
		fence, _ := guard.Fence(ctx)
		assert.Greater(t, fence, high)
		return nil
	}))
	_ = lease.Release(t.Context())
}

// A fence that most servers were told of is remembered for as long as it is ahead of their
// clocks, also when its holder has released.
func TestQuorumFault_QuorumRemembersAFenceUntilTheClocksCatchUp(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	q.Servers[0].Client(t).Set(t.Context(), "guard:{order:42}:last", strconv.FormatInt(ahead, 10)+" ", 2*time.Hour)
	g := q.GuardOfAll(t)
	require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), testenv.Nothing))
	require.NoError(t, g.Close())
	remember := 0
	for _, client := range q.Clients(t) {
		last, _, _ := strings.Cut(client.Get(t.Context(), "guard:{order:42}:last").Val(), " ")
		fence, err := strconv.ParseInt(last, 10, 64)
		require.NoError(t, err)
		if fence > ahead && client.PTTL(t.Context(), "guard:{order:42}:last").Val() > 50*time.Minute {
			remember++
		}
	}
	assert.GreaterOrEqual(t, remember, 2)
}

func TestQuorumFault_QuorumReentryCounts(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	g := q.Guard(t)
	depths := func(lease *guard.Lease, want string) bool {
		for _, client := range q.Clients(t) {
			if !strings.HasPrefix(client.HGet(t.Context(), "guard:{order:42}", lease.Owner()).Val(), want+" ") {
				return false
			}
		}
		return true
	}
	require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), func(ctx context.Context) error {
		lease, _ := guard.FromContext(ctx)
		assert.Eventually(t, func() bool { return depths(lease, "1") }, testenv.Patience, time.Millisecond)
		assert.NoError(t, g.WithLock(ctx, guard.Key("order:42"), func(context.Context) error {
			assert.Eventually(t, func() bool { return depths(lease, "2") }, testenv.Patience, time.Millisecond)
			return nil
		}))
		assert.Eventually(t, func() bool { return depths(lease, "1") }, testenv.Patience, time.Millisecond)
		return nil
	}))
}
