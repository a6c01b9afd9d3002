package inspect_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Each right of the two users in the guide is needed: with one right less, Redis denies
// something.
func TestACLLess_WithOneRightLessSomethingIsDenied(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/inspect.md")
	require.NoError(t, err)
	users := regexp.MustCompile(`(?m)^ACL SETUSER (\w+) (.*)$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, users, 2)
	for _, user := range users {
		t.Run(user[1], func(t *testing.T) {
			t.Parallel()
			rights := strings.Fields(user[2])
			s := redistest.Start(t)
			p := &probe{t: t, s: s, admin: s.Client(t), steps: user[1] == "operator"}
			assert.Empty(t, p.denied(user[1], rights), "all of them")
			n := 0
			for i, right := range rights {
				if strings.ContainsAny(right[:1], "+~%&") {
					assert.NotEmpty(t, p.denied(user[1], slices.Delete(slices.Clone(rights), i, i+1)), right)
					n++
				}
			}
			assert.Greater(t, n, 10)
		})
	}
}

// probe does all that a user may do.
type probe struct {
	t     *testing.T
	s     *redistest.Server
	admin *redis.Client
	steps bool // Revoke, Break and Forget, too
}

// denied gives what Redis denied to a user with these rights.
func (p *probe) denied(user string, rights []string) []redis.ACLLogEntry {
	t := p.t
	t.Helper()
	words := []any{"acl", "setuser", user}
	for _, word := range rights {
		words = append(words, word)
	}
	require.NoError(t, p.admin.Do(t.Context(), words...).Err())
	g, other := guardOn(t, p.s.Client(t)), guardOn(t, p.s.Client(t))
	shared, err := g.Acquire(t.Context(), guard.Key("shared"), guard.Limit(2))
	require.NoError(t, err)
	first, err := g.Acquire(t.Context(), guard.Key("first"))
	require.NoError(t, err)
	second, err := g.Acquire(t.Context(), guard.Key("second"))
	require.NoError(t, err)
	in := make(chan error, 1) // what it holds while its Guard is closed stays taken for its ttl
	go func() {
		in <- other.WithLock(t.Context(), guard.Key("second"), func(context.Context) error { return nil })
	}()
	awaitWaiting(t, inspect.New(p.admin), "second", 1)
	require.NoError(t, p.admin.Set(t.Context(), "guard:{second}:once", "1 done 7 0 "+worker+" - 9 0 ", 0).Err())
	require.NoError(t, p.admin.ScriptFlush(t.Context()).Err(), "the scripts are sent in full once")
	require.NoError(t, p.admin.ACLLogReset(t.Context()).Err())

	client := p.s.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = user, "PASSWORD", true })
	i := inspect.New(client)
	_, _ = i.Get(t.Context(), "second")
	for _, err := range i.All(t.Context(), "") {
		if err != nil {
			break
		}
	}
	if p.steps {
		_, _ = i.Revoke(t.Context(), "shared", shared.Fence())
		_, _ = i.Revoke(t.Context(), "first", first.Fence())
		_, _ = i.Break(t.Context(), "second", second.Fence())
		_, _ = i.Forget(t.Context(), "second")
	}
	found, err := p.admin.ACLLog(t.Context(), 10).Result()
	require.NoError(t, err)
	denied := make([]redis.ACLLogEntry, 0, len(found))
	for _, entry := range found {
		denied = append(denied, *entry)
	}
	for _, lease := range []*guard.Lease{shared, first, second} {
		_ = lease.Release(context.WithoutCancel(t.Context())) // it may be lost
	}
	require.NoError(t, <-in)
	require.NoError(t, client.Close())
	require.NoError(t, g.Close())
	require.NoError(t, other.Close())
	return denied
}
