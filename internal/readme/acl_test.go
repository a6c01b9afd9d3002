package readme

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/redistest"
)

var aclLine = regexp.MustCompile(`(?m)^ACL (SETUSER redlatch .*)$`)

// rights are the words of the command in the guide.
func rights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/production.md")
	require.NoError(t, err)
	line := aclLine.FindSubmatch(text)
	require.NotNil(t, line)
	return strings.Fields(string(line[1]))
}

// limited starts a server and gives a client of the user that the guide makes. Whatever
// that user was denied by the end of the test fails it.
func limited(t *testing.T) redis.UniversalClient {
	t.Helper()
	s := redistest.Start(t)
	admin, args := s.Client(t), []any{"acl"}
	for _, word := range rights(t) {
		args = append(args, word)
	}
	require.NoError(t, admin.Do(t.Context(), args...).Err())
	t.Cleanup(func() {
		denied, err := admin.ACLLog(context.Background(), 1).Result()
		assert.NoError(t, err)
		assert.Empty(t, denied)
	})
	return s.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = "redlatch", "secret", true })
}

var called = regexp.MustCompile(`redis\.p?call\('(\w+)'`)

func TestACL_RightsInProductionGuideNameEveryCommandOfTheScripts(t *testing.T) {
	all := rights(t)
	scripts, err := filepath.Glob("../../guard/internal/redisstore/lua/*.lua")
	require.NoError(t, err)
	ofQuorum, err := filepath.Glob("../../guard/quorum/lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, ofQuorum)
	require.NotEmpty(t, scripts)
	for _, script := range append(scripts, ofQuorum...) {
		text, err := os.ReadFile(script)
		require.NoError(t, err)
		for _, c := range called.FindAllSubmatch(text, -1) {
			assert.Contains(t, all, "+"+strings.ToLower(string(c[1])), script)
		}
	}
}

// The rights in the guide are enough: to take, renew, nest, wait for and pass on a lock.
func TestACL_RightsInProductionGuideAreEnough(t *testing.T) {
	t.Parallel()
	one := limited(t)
	many := []redis.UniversalClient{limited(t), limited(t), limited(t)}
	for name, open := range map[string]func() (*guard.Guard, error){
		"one": func() (*guard.Guard, error) { return guard.New(one, guard.TTL(3*time.Second)) },
		"quorum": func() (*guard.Guard, error) {
			store, err := quorum.New(many)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = store.Close() })
			return guard.NewWithStore(store, guard.TTL(3*time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holder, waiter := opened(t, open), opened(t, open)
			waited := make(chan error, 1)
			err := holder.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
				go func() {
					waited <- waiter.WithLock(t.Context(), guard.Key("k"), func(context.Context) error { return nil })
				}()
				lease, _ := guard.Held(ctx, "k")
				first := lease.Deadline()
				require.Eventually(t, func() bool { return lease.Deadline().After(first) }, 15*time.Second, 10*time.Millisecond, "not renewed")
				return holder.WithLock(ctx, guard.Key("k"), func(context.Context) error { return nil })
			})
			require.NoError(t, err)
			require.NoError(t, <-waited)
		})
	}
}

// Too few replicas, but no lack of rights.
func TestACL_RightsInProductionGuideAllowToWaitForReplicas(t *testing.T) {
	t.Parallel()
	client := limited(t)
	g := opened(t, func() (*guard.Guard, error) {
		return guard.New(client, guard.Replicas(1, time.Millisecond), guard.StoreTimeout(time.Second))
	})
	_, err := g.Acquire(t.Context(), guard.Key("k"))
	require.ErrorIs(t, err, guard.ErrStore)
	assert.ErrorContains(t, err, "0 of 1 replicas")
}

func opened(t *testing.T, open func() (*guard.Guard, error)) *guard.Guard {
	t.Helper()
	g, err := open()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}
