package inspect_test

import (
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
	"github.com/redlatch/redlatch/guard/inspect"
)

// The two users in the guide can do what they are for, and each of their rights is needed: with one right less, Redis
// denies something.
func TestACL_TheDocumentedRightsAreEnoughAndNeeded(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate/redis.md")
	require.NoError(t, err)
	users := regexp.MustCompile(`(?m)^ACL SETUSER (viewer|operator) (.*)$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, users, 2)
	for _, user := range users {
		t.Run(user[1], func(t *testing.T) {
			r, rights, n := newEnv(t), strings.Fields(user[2]), 0
			if user[1] == "viewer" && strings.Contains(r.rdb.Info(t.Context(), "server").Val(), "redis_version:6.") {
				t.Skip("a right to read keys needs Redis 7")
			}
			assert.Empty(t, r.denied(user[1], rights), "all of them")
			for i, right := range rights {
				if strings.ContainsAny(right[:1], "+~%&") {
					assert.NotEmpty(t, r.denied(user[1], slices.Delete(slices.Clone(rights), i, i+1)), right)
					n++
				}
			}
			assert.Greater(t, n, 10)
			if user[1] == "viewer" {
				client := r.server.Client(t, func(o *redis.Options) { o.Username, o.Password = user[1], "PASSWORD" })
				_, err := inspect.New(client).Revoke(t.Context(), "k", 1)
				require.ErrorIs(t, err, guard.ErrStore)
				require.ErrorContains(t, err, "NOPERM")
			}
		})
	}
}

// denied gives what Redis denied to a user with these rights, when that user does all that the rights are for.
func (r *env) denied(user string, rights []string) (denied []*redis.ACLLogEntry) {
	t, ctx := r.T, r.Context()
	t.Helper()
	words := []any{"acl", "setuser", user}
	for _, word := range rights {
		words = append(words, word)
	}
	require.NoError(t, r.rdb.Do(ctx, words...).Err())
	g, other := r.guard(), r.guard()
	shared, first, second := r.hold(g, "shared", guard.Limit(2)), r.hold(g, "first"), r.hold(g, "second")
	next := r.start(other, "second")
	r.await("second", 1, 1)
	require.NoError(t, r.rdb.Set(ctx, "redlatch:{second}:once", "1 done 7 0 "+worker+" - 9 0 ", 0).Err())
	require.NoError(t, r.rdb.ScriptFlush(ctx).Err(), "the scripts are sent in full once")
	require.NoError(t, r.rdb.ACLLogReset(ctx).Err())

	client := r.server.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = user, "PASSWORD", true })
	i := inspect.New(client)
	_, _ = i.Get(ctx, "second")
	for _, err := range i.All(ctx, "") {
		if err != nil {
			break
		}
	}
	if user == "operator" {
		_, _ = i.Revoke(ctx, "shared", shared.Fence())
		_, _ = i.Revoke(ctx, "first", first.Fence())
		_, _ = i.Break(ctx, "shared", shared.Fence())
		_, _ = i.Break(ctx, "second", second.Fence())
		_, _ = i.Forget(ctx, "second")
	}
	denied, err := r.rdb.ACLLog(ctx, 10).Result()
	require.NoError(t, err)
	for _, h := range []held{shared, first, second} {
		close(h.leave)
		t.Log(<-h.result) // it may be lost
	}
	(<-next).finish(nil)
	require.NoError(t, r.rdb.Del(ctx, "redlatch:{shared}").Err(), "without the right to delete it, it has no owner")
	require.Eventually(t, func() bool { return len(r.all("")) == 0 || len(r.get("second").Holders) == 0 }, patience, time.Millisecond)
	return denied
}
