package redisstore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// limitedClient returns the client of a user with these rights.
func limitedClient(t *testing.T, rights ...string) *redis.Client {
	t.Helper()
	s := redistest.Start(t)
	args := []any{"acl", "setuser", "limited", "on", ">pw"}
	for _, right := range rights {
		args = append(args, right)
	}
	require.NoError(t, s.Client(t).Do(t.Context(), args...).Err())
	return s.Client(t, func(o *redis.Options) { o.Username, o.Password = "limited", "pw" })
}

// refuses expects an acquire to fail with a StoreError that says why.
func refuses(t *testing.T, g *guard.Guard, key, says string) {
	t.Helper()
	err := g.WithLock(t.Context(), guard.Key(key), func(context.Context) error {
		assert.Fail(t, "the work ran")
		return nil
	})
	var failure *guard.StoreError
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, "acquire", failure.Op)
	assert.Equal(t, key, failure.Key)
	assert.Regexp(t, says, failure.Err.Error())
	require.NotErrorIs(t, err, guard.ErrBusy)
	require.NotErrorIs(t, err, guard.ErrLost)
}

// What never gets better is not asked twice: the words of Redis for it are known.
func TestRefused_ABadServerIsAStoreError(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]struct {
		client func(t *testing.T) *redis.Client
		says   string // a regular expression
		atOnce bool
	}{
		"wants a password": {
			client: func(t *testing.T) *redis.Client { return redistest.Start(t, "--requirepass", "secret").Client(t) },
			says:   "NOAUTH|unauthenticated",
		},
		"does not let this user run scripts": {
			client: func(t *testing.T) *redis.Client { return limitedClient(t, "~*", "&*", "+@all", "-@scripting") },
			says:   "NOPERM", atOnce: true,
		},
		"does not let this user have the key": {
			client: func(t *testing.T) *redis.Client { return limitedClient(t, "~other:*", "&*", "+@all") },
			says:   "NOPERM", atOnce: true,
		},
		"is a node of a cluster": {
			client: func(t *testing.T) *redis.Client {
				t.Helper()
				c := redistest.StartCluster(t)
				owner := c.Primary("redlatch:{k}")
				return c.Nodes()[slices.IndexFunc(c.Nodes(), func(s *redistest.Server) bool { return s != owner })].Client(t)
			},
			says: "give a .*ClusterClient", atOnce: true,
		},
		"has no memory left": {
			client: func(t *testing.T) *redis.Client { return redistest.Start(t, "--maxmemory", "1").Client(t) },
			says:   "OOM",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patient := time.Second
			if server.atOnce {
				patient = 2 * testenv.Patience
			}
			g := testenv.GuardOn(t, server.client(t), guard.StoreTimeout(patient))
			begun := time.Now()
			refuses(t, g, "k", server.says)
			assert.Less(t, time.Since(begun), min(patient+time.Second, testenv.Patience))
		})
	}
}

// Redis refuses writes for a moment, as after a failed snapshot, while a release is sent: the release is repeated.
func TestRefused_AReleaseIsRepeatedWhileRedisRefusesWrites(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--min-replicas-max-lag", "1")
	r := testenv.NewOn(t, s, nil, s.Client(t))
	set := func(users ...any) { // as an operator takes rights away, and gives them back
		require.NoError(t, r.Direct.Do(t.Context(), append([]any{"acl", "setuser", "default"}, users...)...).Err())
	}
	for name, refusal := range map[string][2]func(){
		"no right": {func() { set("-evalsha", "-eval") }, func() { set("+evalsha", "+eval") }},
		"no replica": {
			func() { require.NoError(t, r.Direct.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err()) },
			func() { require.NoError(t, r.Direct.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err()) },
		},
	} {
		l, err := r.Acquire(t.Context(), guard.Key("k"))
		require.NoError(t, err)
		failures, _ := r.Seen.Count(guard.EventStoreFailure)
		refusal[0]()
		released := testenv.InBackground(func() error { return l.Release(t.Context()) })
		testenv.Eventually(t, func() bool { n, _ := r.Seen.Count(guard.EventStoreFailure); return n > failures }, "no refusal: "+name)
		refusal[1]()
		require.NoError(t, released(t), name)
		assert.Zero(t, r.Locks(t), name)
	}
}

// A replica becomes the master while a caller asks it.
func TestRefused_AReplicaThatIsPromoted(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Start(t, "--replicaof", strings.Replace(master.Addr(), ":", " ", 1))
	r := testenv.NewOn(t, replica, nil, replica.Client(t), guard.StoreTimeout(testenv.Patience))
	acquired := testenv.InBackground(func() error {
		return r.WithLock(t.Context(), guard.Key("k"), testenv.Nothing)
	})
	r.Seen.More(t, guard.EventStoreFailure, 1)
	require.NoError(t, r.Direct.Do(t.Context(), "replicaof", "no", "one").Err())
	require.NoError(t, acquired(t))
}
