package guard_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardstore/storetest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/redistest"
)

func login(o *redis.Options) { o.Username, o.Password = "redlatch", "PASSWORD" }

// documentedRights are those of the user redlatch in docs/operate/redis.md, for all prefixes that begin with acl.
func documentedRights(t *testing.T) (rights []any) {
	t.Helper()
	text, err := os.ReadFile("../docs/operate/redis.md")
	require.NoError(t, err)
	for _, line := range regexp.MustCompile(`(?m)^ACL SETUSER redlatch (.*)$`).FindAllStringSubmatch(string(text), -1) {
		for right := range strings.FieldsSeq(line[1]) {
			assert.NotContains(t, right, "@", "a category has other commands")
			rights = append(rights, strings.Replace(right, "redlatch:", "acl*:", 1))
		}
	}
	require.Greater(t, len(rights), 25)
	return rights
}

// The rights in docs/operate/redis.md are enough for one Redis, a cluster and a quorum, and each is used.
func TestACL_TheDocumentedRightsAreEnoughAndNeeded(t *testing.T) {
	t.Parallel()
	rights := documentedRights(t)
	primary, _ := testenv.Replicated(t)
	node := redistest.Start(t, "--cluster-enabled", "yes")
	require.NoError(t, node.Client(t).ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testenv.Eventually(t, func() bool {
		return strings.Contains(node.Client(t).ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, "no cluster")
	servers := []*redistest.Server{primary, redistest.Start(t), redistest.Start(t), node}
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		admin := s.Client(t)
		require.NoError(t, admin.Do(t.Context(), append([]any{"acl", "setuser", "redlatch"}, rights...)...).Err())
		require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
		clients[i] = s.Client(t, login)
	}
	nodes := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node.Addr()}, Username: "redlatch", Password: "PASSWORD"})
	t.Cleanup(func() { _ = nodes.Close() })

	n := 0
	prefix := func() string { n++; return fmt.Sprint("acl", n) }
	storetest.TestLimits(t, func(tb testing.TB) guardstore.Store { return testenv.RedisStore(tb, clients[0], prefix()) })
	storetest.TestQueue(t, func(tb testing.TB) guardstore.Store { return testenv.RedisStore(tb, nodes, prefix()) })
	storetest.TestStore(t, func(tb testing.TB) guardstore.Store {
		return testenv.QuorumStore(tb, clients[:3], quorum.Prefix(prefix()))
	})
	several := testenv.QuorumStore(t, clients[:3], quorum.Prefix(prefix()))
	for _, owner := range []string{"a-1", "b-1"} { // b waits
		_, err := several.Acquire(t.Context(), guardstore.Claim{Key: "k", Owner: owner, TTL: time.Minute, Queue: true})
		require.NoError(t, err)
	}
	replicated := testenv.GuardOn(t, clients[0], guard.Prefix(prefix()), guard.StoreTimeout(testenv.Patience), guard.Replicas(1, time.Second))
	for range 2 {
		_, _, err := guard.Once(t.Context(), replicated, k, time.Minute, gives(1))
		require.NoError(t, err)
	}
	_, err := replicated.Forget(t.Context(), k)
	require.NoError(t, err)

	used := []any{"+asking"} // go-redis sends it while a slot moves from one node to another
	for _, s := range servers {
		admin := s.Client(t)
		for _, stat := range testenv.CommandStat.FindAllStringSubmatch(admin.Info(t.Context(), "commandstats").Val(), -1) {
			used = append(used, "+"+stat[1])
		}
		refused, err := admin.ACLLog(t.Context(), 1000).Result()
		require.NoError(t, err)
		for _, r := range refused { // that go-redis sends its name does not matter
			assert.True(t, strings.HasPrefix(r.Object, "client"), "%s %s", r.Reason, r.Object)
		}
	}
	assert.Empty(t, slices.DeleteFunc(rights, func(right any) bool {
		return !strings.HasPrefix(right.(string), "+") || slices.Contains(used, right)
	}))
}
