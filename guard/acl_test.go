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

// documentedRights are those that SECURITY.md says are needed, without user and password.
func documentedRights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../SECURITY.md")
	require.NoError(t, err)
	var rights []string
	for _, line := range regexp.MustCompile(`(?m)^ACL SETUSER redlatch (.*)$`).FindAllStringSubmatch(string(text), -1) {
		rights = append(rights, strings.Fields(line[1])...)
	}
	require.Equal(t, []string{"reset", "on", ">PASSWORD", "resetchannels"}, rights[:4])
	return rights[4:]
}

// aclServers are all kinds of servers that a Guard may be on.
type aclServers struct {
	quorum  []*redistest.Server // the first has a replica
	cluster *redistest.Server   // all slots on one node
	admins  []*redis.Client
}

func newACLServers(t *testing.T) *aclServers {
	t.Helper()
	primary, _ := testenv.Replicated(t)
	s := &aclServers{
		quorum:  []*redistest.Server{primary, redistest.Start(t), redistest.Start(t)},
		cluster: redistest.Start(t, "--cluster-enabled", "yes"),
	}
	for _, server := range append(slices.Clone(s.quorum), s.cluster) {
		admin := server.Client(t)
		require.NoError(t, admin.ConfigSet(t.Context(), "acllog-max-len", "100000").Err())
		s.admins = append(s.admins, admin)
	}
	cluster := s.admins[3]
	require.NoError(t, cluster.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testenv.Eventually(t, func() bool {
		return strings.Contains(cluster.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, "no cluster")
	return s
}

// aclUser is somebody with some rights on all servers.
type aclUser struct {
	*aclServers
	name string
}

func (s *aclServers) user(t *testing.T, name string, rights []string) aclUser {
	t.Helper()
	args := []any{"acl", "setuser", name, "reset", "on", ">PASSWORD", "resetchannels"}
	for _, right := range rights {
		args = append(args, right)
	}
	for _, admin := range s.admins {
		require.NoError(t, admin.Do(t.Context(), args...).Err())
	}
	return aclUser{s, name}
}

func (u aclUser) login(o *redis.Options) { o.Username, o.Password = u.name, "PASSWORD" }

// refused is what the servers did not let the user do. That go-redis tells its name does
// not matter.
func (u aclUser) refused(t *testing.T) (what []string) {
	t.Helper()
	for _, admin := range u.admins {
		entries, err := admin.ACLLog(context.WithoutCancel(t.Context()), 100000).Result()
		require.NoError(t, err)
		for _, e := range entries {
			if e.Username == u.name && !strings.HasPrefix(e.Object, "client") {
				what = append(what, e.Reason+" "+e.Object)
			}
		}
	}
	return what
}

// everything uses all of a Guard, one part beside the other: once or, if again is not 0, time and
// again until ctx ends. Some rights are needed only where two things happen at the same time, and
// a subscription is checked when it is idle.
func (u aclUser) everything(ctx context.Context, t *testing.T, again time.Duration) error {
	t.Helper()
	var one, another []redis.UniversalClient
	for _, s := range u.quorum {
		one, another = append(one, s.Client(t, u.login)), append(another, s.Client(t, u.login))
	}
	nodes := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{u.cluster.Addr()}, Username: u.name, Password: "PASSWORD",
	})
	t.Cleanup(func() { _ = nodes.Close() })

	patient := guard.StoreTimeout(testenv.Patience)
	seen := testenv.NewWatcher()
	a, errA := guard.New(one[0], patient, guard.Observe(seen))
	b, errB := guard.New(another[0], patient, guard.HandoverWindow(0))
	qa, qb := testenv.GuardOnServers(t, one, patient), testenv.GuardOnServers(t, another, patient)
	c, errC := guard.New(nodes, patient)
	d, errD := guard.New(nodes, patient)
	r, errR := guard.New(one[0], patient, guard.Replicas(1, time.Second))
	proxy := redistest.NewProxy(t, u.quorum[0].Addr())
	l, errL := guard.New(proxy.Client(t, u.login), guard.StoreTimeout(time.Second))
	require.NoError(t, errors.Join(errA, errB, errC, errD, errR, errL))

	var errs []error
	for n := 0; ; n++ {
		key := func(part string) string { return fmt.Sprintf("%s:%s:%d", u.name, part, n) }
		parts := []func() error{
			func() error { return renewed(ctx, a, seen, key("renewed")) },
			func() error { return besideEachOther(ctx, a, key("beside")) },
			func() error { return givenUp(ctx, a, b, key("given-up")) },
			func() error { return u.tombstone(ctx, t, l, proxy, key("tombstone")) },
			func() error { return r.WithLock(ctx, guard.Key(key("replicas")), nothing) },
			func() error { return passedOn(ctx, u.admins[0], "queue", a, b, key("passed-on")) },
			func() error { return passedOn(ctx, u.admins[0], "wake", qa, qb, key("quorum")) },
			func() error { return passedOn(ctx, u.admins[3], "queue", c, d, key("cluster")) },
		}
		round := make([]error, len(parts))
		var all sync.WaitGroup
		for i, part := range parts {
			all.Go(func() { round[i] = part() })
		}
		all.Wait()
		errs = append(errs, round...)
		select {
		case <-ctx.Done():
		case <-time.After(again):
			if again > 0 {
				continue
			}
		}
		break
	}
	for _, g := range []*guard.Guard{a, b, qa, qb, c, d, r, l} {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// renewed has a lock entered twice and renewed.
func renewed(ctx context.Context, g *guard.Guard, seen *testenv.Watcher, key string) error {
	return g.WithLock(ctx, guard.Key(key), func(ctx context.Context) error {
		return g.WithLock(ctx, guard.Key(key), func(ctx context.Context) error {
			return until(ctx, func() bool { n, _ := seen.Count(guard.Renewal); return n > 1 })
		})
	}, guard.TTL(300*time.Millisecond))
}

// besideEachOther has readers and permits, one of which leaves a hold behind that is dropped.
func besideEachOther(ctx context.Context, g *guard.Guard, key string) error {
	dead, err := g.Acquire(ctx, guard.Key(key), guard.Shared(), guard.FixedLease(), guard.TTL(guard.MinTTL))
	if err != nil {
		return err
	}
	err = g.WithLock(ctx, guard.Key(key), func(context.Context) error {
		<-dead.Context().Done()
		return g.WithLock(context.WithoutCancel(ctx), guard.Key(key), nothing, guard.Shared())
	}, guard.Limit(3))
	return errors.Join(err, g.WithLock(ctx, guard.Key(key), nothing))
}

// givenUp has a caller leave the queue.
func givenUp(ctx context.Context, a, b *guard.Guard, key string) error {
	return a.WithLock(ctx, guard.Key(key), func(context.Context) error {
		err := b.WithLock(context.WithoutCancel(ctx), guard.Key(key), nothing, guard.Wait(50*time.Millisecond))
		if errors.Is(err, guard.ErrBusy) {
			return nil
		}
		return fmt.Errorf("not busy: %w", err)
	})
}

// tombstone has a caller give up before its first command arrives.
func (u aclUser) tombstone(ctx context.Context, t *testing.T, g *guard.Guard, proxy *redistest.Proxy, key string) error {
	held, land := proxy.HoldRequest(testenv.RunsScript(t, "acquire"))
	defer land()
	hasty, giveUp := context.WithCancel(ctx)
	go func() {
		select {
		case <-held:
		case <-ctx.Done():
		}
		giveUp()
	}()
	if err := g.WithLock(hasty, guard.Key(key), nothing); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("not cancelled: %w", err)
	}
	return until(ctx, func() bool {
		return u.admins[0].ZCount(ctx, testenv.LockOf(key)+":queue", "-inf", "(0").Val() == 1
	})
}

// passedOn has a lock go from one Guard to another, and there from caller to caller.
func passedOn(ctx context.Context, admin *redis.Client, queue string, a, b *guard.Guard, key string) error {
	lease, err := a.Acquire(ctx, guard.Key(key))
	if err != nil {
		return err
	}
	errs := make(chan error, 3)
	for _, g := range []*guard.Guard{b, b, a} {
		go func() { errs <- g.WithLock(ctx, guard.Key(key), nothing) }()
	}
	err = until(ctx, func() bool { return admin.ZCard(ctx, testenv.LockOf(key)+":"+queue).Val() > 0 })
	return errors.Join(err, lease.Release(context.WithoutCancel(ctx)), <-errs, <-errs, <-errs)
}

func until(ctx context.Context, condition func() bool) error {
	for !condition() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(testenv.Tick):
		}
	}
	return nil
}

// The rights are enough, and no other command is allowed. With one right less, something is refused.
func TestACL_TheDocumentedRightsAreEnoughAndNeeded(t *testing.T) {
	t.Parallel()
	rights := documentedRights(t)
	servers := newACLServers(t)
	u := servers.user(t, "redlatch", rights)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	require.NoError(t, u.everything(ctx, t, 0))
	assert.Empty(t, u.refused(t))

	rdb := u.quorum[0].Client(t, u.login)
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

	for i, right := range rights {
		if right == "+asking" {
			continue // go-redis sends it while a slot moves from one node to another
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			u := servers.user(t, fmt.Sprintf("less-%d", i), slices.Delete(slices.Clone(rights), i, i+1))
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
			defer cancel()
			ended := testenv.InBackground(func() error { return u.everything(ctx, t, 5*time.Second) })
			testenv.Eventually(t, func() bool {
				if right == "+eval" { // of use only where the scripts are not known
					_ = u.admins[0].ScriptFlush(t.Context())
				}
				return len(u.refused(t)) > 0
			}, "nobody missed it")
			cancel()
			_ = ended(t) // it may have gone well: what a Guard does to be on the safe side is missed later
		})
	}
}
