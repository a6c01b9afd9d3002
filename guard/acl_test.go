package guard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
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

// aclServers are three of a quorum, the first of which has a replica, and a cluster of one node.
type aclServers struct {
	*testing.T
	servers []*redistest.Server
	admins  []*redis.Client
}

// newACLServers have a user with some rights.
func newACLServers(t *testing.T, rights []string) *aclServers {
	t.Helper()
	primary, _ := testenv.Replicated(t)
	a := &aclServers{t, []*redistest.Server{
		primary, redistest.Start(t), redistest.Start(t), redistest.Start(t, "--cluster-enabled", "yes"),
	}, nil}
	args := []any{"acl", "setuser", "redlatch"}
	for _, right := range rights {
		args = append(args, right)
	}
	for _, s := range a.servers {
		admin := s.Client(t)
		require.NoError(t, admin.Do(t.Context(), args...).Err())
		a.admins = append(a.admins, admin)
	}
	nodes := a.admins[3]
	require.NoError(t, nodes.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testenv.Eventually(t, func() bool {
		return strings.Contains(nodes.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, "no cluster")
	for _, admin := range a.admins {
		require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
		require.NoError(t, admin.ScriptFlush(t.Context()).Err(), "the scripts are sent in full once")
	}
	return a
}

func login(o *redis.Options) { o.Username, o.Password = "redlatch", "PASSWORD" }

// unused are those of the rights to commands that no test used.
func (a *aclServers) unused(rights []string) (unused []string) {
	used := map[string]bool{"asking": true} // go-redis sends it while a slot moves from one node to another
	for _, admin := range a.admins {
		for _, stat := range testenv.CommandStat.FindAllStringSubmatch(admin.Info(a.Context(), "commandstats").Val(), -1) {
			used[stat[1]] = true
		}
	}
	for _, right := range rights {
		if command, ok := strings.CutPrefix(right, "+"); ok && !used[command] {
			unused = append(unused, command)
		}
	}
	return unused
}

// refused is what the servers did not let the user do. That go-redis sends its name does not matter.
func (a *aclServers) refused() (what []string) {
	for _, admin := range a.admins {
		entries, err := admin.ACLLog(a.Context(), 1000).Result()
		require.NoError(a, err)
		for _, e := range entries {
			if !strings.HasPrefix(e.Object, "client") {
				what = append(what, e.Reason+" "+e.Object)
			}
		}
	}
	return what
}

// everything gives all that a Guard does, the parts to be run beside each other.
func (a *aclServers) everything(ctx context.Context) (parts []func(key string) error) {
	patient, seen := guard.StoreTimeout(testenv.Patience), testenv.NewWatcher()
	clients := func() (all []redis.UniversalClient) {
		for _, s := range a.servers[:3] {
			all = append(all, s.Client(a.T, login))
		}
		return all
	}
	nodes := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{a.servers[3].Addr()}, Username: "redlatch", Password: "PASSWORD"})
	a.Cleanup(func() { _ = nodes.Close() })
	one, other := testenv.GuardOn(a.T, clients()[0], patient, guard.Observe(seen)), testenv.GuardOn(a.T, clients()[0], patient, guard.HandoverWindow(0))
	replicated := testenv.GuardOn(a.T, clients()[0], patient, guard.Replicas(1, time.Second))
	proxy := redistest.NewProxy(a.T, a.servers[0].Addr())
	late := testenv.GuardOn(a.T, proxy.Client(a.T, login), guard.StoreTimeout(time.Second))
	return []func(key string) error{
		func(key string) error { // entered twice, and renewed
			return one.WithLock(ctx, guard.Key(key), func(ctx context.Context) error {
				return one.WithLock(ctx, guard.Key(key), func(context.Context) error {
					seen.More(a.T, guard.EventRenewal, 2)
					return nil
				})
			}, guard.TTL(300*time.Millisecond))
		},
		func(key string) error { // readers and permits, one of which leaves a hold that is dropped
			dead, err := one.Acquire(ctx, guard.Key(key), guard.Shared(), guard.MaxHold(50*time.Millisecond), guard.TTL(100*time.Millisecond))
			if err != nil {
				return err
			}
			return errors.Join(one.WithLock(ctx, guard.Key(key), func(context.Context) error {
				<-dead.Context().Done()
				return one.WithLock(ctx, guard.Key(key), nothing, guard.Shared())
			}, guard.Limit(3)), one.WithLock(ctx, guard.Key(key), nothing))
		},
		func(key string) error { // a caller leaves the queue
			return one.WithLock(ctx, guard.Key(key), func(context.Context) error {
				assert.ErrorIs(a, other.WithLock(ctx, guard.Key(key), nothing, guard.Wait(50*time.Millisecond)), guard.ErrBusy)
				return nil
			})
		},
		func(key string) error { // a caller gives up before its first command arrives
			hasty, giveUp := context.WithCancel(ctx)
			held, land := proxy.HoldRequest(testenv.RunsScript(a.T, "acquire"))
			defer land()
			go func() { <-held; giveUp() }()
			assert.ErrorIs(a, late.WithLock(hasty, guard.Key(key), nothing), context.Canceled)
			testenv.Eventually(a.T, func() bool { return a.admins[0].ZCard(ctx, testenv.LockOf(key)+":ended").Val() > 0 }, "no tombstone")
			return nil
		},
		func(key string) error { return replicated.WithLock(ctx, guard.Key(key), nothing) },
		func(key string) error {
			_, _, err := guard.Once(ctx, one, guard.Key(key), time.Minute, func(context.Context) (int, error) { return 1, nil })
			return err
		},
		a.passesOn(ctx, 0, "queue", one, other),
		a.passesOn(ctx, 0, "wake", testenv.GuardOnServers(a.T, clients(), patient), testenv.GuardOnServers(a.T, clients(), patient)),
		a.passesOn(ctx, 3, "queue", testenv.GuardOn(a.T, nodes, patient), testenv.GuardOn(a.T, nodes, patient)),
	}
}

// passesOn has a lock go from one Guard to another, and there from caller to caller.
func (a *aclServers) passesOn(ctx context.Context, server int, queue string, one, other *guard.Guard) func(key string) error {
	return func(key string) error {
		lease, err := one.Acquire(ctx, guard.Key(key))
		if err != nil {
			return err
		}
		errs := make(chan error, 3)
		for _, g := range []*guard.Guard{other, other, one} {
			go func() { errs <- g.WithLock(ctx, guard.Key(key), nothing) }()
		}
		testenv.Eventually(a.T, func() bool { return a.admins[server].ZCard(ctx, testenv.LockOf(key)+":"+queue).Val() > 0 }, "no claim waits")
		return errors.Join(lease.Release(ctx), <-errs, <-errs, <-errs)
	}
}

// The rights in docs/operate/redis.md are enough, each is used, and no other command is allowed.
func TestACL_TheDocumentedRightsAreEnoughAndNeeded(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operate/redis.md")
	require.NoError(t, err)
	var rights []string
	for _, line := range regexp.MustCompile(`(?m)^ACL SETUSER redlatch (.*)$`).FindAllStringSubmatch(string(text), -1) {
		rights = append(rights, strings.Fields(line[1])...)
	}
	rights = slices.DeleteFunc(rights, func(right string) bool { return right == "+hgetall" }) // of redlatch run, which tests it
	require.Greater(t, len(rights), 25)
	a := newACLServers(t, rights)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	parts := a.everything(ctx)
	for round := 0; round == 0 || len(a.unused(rights)) > 0; round++ { // some are of use where two things happen at a time
		require.NoError(t, ctx.Err(), a.unused(rights))
		var all sync.WaitGroup
		for i, part := range parts {
			all.Go(func() { assert.NoError(t, part(fmt.Sprintf("part:%d:%d", i, round))) })
		}
		all.Wait()
	}
	assert.Empty(t, a.refused())

	rdb := a.servers[0].Client(t, login)
	for _, command := range []string{
		"get other", "set other x", "publish other x", "keys *", "flushall", "config get *", "acl whoami",
		"client list", "script flush", "shutdown", "scan 0", "monitor",
	} {
		args := []any{}
		for _, word := range strings.Fields(command) {
			args = append(args, word)
		}
		assert.ErrorContains(t, rdb.Do(t.Context(), args...).Err(), "NOPERM", command)
	}
}
