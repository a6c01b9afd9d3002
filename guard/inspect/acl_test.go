package inspect_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestACL_TheDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/inspect.md")
	require.NoError(t, err)
	s := redistest.Start(t)
	admin := s.Client(t)
	users := map[string]*inspect.Inspector{}
	for _, line := range regexp.MustCompile(`(?m)^ACL SETUSER (\w+) .*$`).FindAllStringSubmatch(string(text), -1) {
		var words []any
		for _, word := range strings.Fields(line[0]) {
			words = append(words, word)
		}
		require.NoError(t, admin.Do(t.Context(), words...).Err())
		users[line[1]] = inspect.New(s.Client(t, func(o *redis.Options) { o.Username, o.Password = line[1], "PASSWORD" }))
	}
	viewer, operator := users["viewer"], users["operator"]
	g := guardOn(t, s.Client(t), guard.Instance("web-1"))
	one, two := hold(t, g, "one"), hold(t, g, "two")
	for name, i := range users {
		_, err := i.Get(t.Context(), "one")
		require.NoError(t, err, name)
		n := 0
		for info, err := range i.All(t.Context(), "") {
			require.NoError(t, err, name)
			assert.Equal(t, "web-1", info.Holders[0].Instance, name)
			n++
		}
		assert.Equal(t, 2, n)
	}
	fence := fenceOf(t, viewer, "one")
	_, err = viewer.Revoke(t.Context(), "one", fence)
	require.ErrorIs(t, err, guard.ErrStore)
	require.ErrorContains(t, err, "NOPERM")
	_, err = viewer.Break(t.Context(), "one", fence)
	require.ErrorIs(t, err, guard.ErrStore)
	newWork(t, admin, "recorded").done("result")
	_, err = viewer.Forget(t.Context(), "recorded")
	require.ErrorIs(t, err, guard.ErrStore)
	forgot(t, operator, "recorded", true)
	require.NoError(t, one.ctx.Err())
	revoked(t, operator, "one", fence)
	ended(t, one.ctx)
	there, err := operator.Break(t.Context(), "two", fenceOf(t, operator, "two"))
	require.NoError(t, err)
	assert.True(t, there)
	ended(t, two.ctx)
	close(one.finish)
	close(two.finish)
	require.ErrorIs(t, <-one.result, guard.ErrRevoked)
	require.ErrorIs(t, <-two.result, guard.ErrRevoked)
}
