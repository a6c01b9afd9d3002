package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/gopher-lua/parse"
)

const luaSource = `-- if a comment
local function f(a, b)
  g(a)
  if a == 1 and not b then
    x.n, y = h(2), {c = 3}
    redis.call('SET', KEYS[1], "if 5")
  elseif a or b and f(a, b) then
    return a and b or 'x'
  end
  while a < b do a = a + 1 end
  n = m or 0
end
`

func TestLua_Mutants(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, m := range Lua(luaSource) {
		ids = append(ids, m.ID)
	}
	assert.Equal(t, []string{
		"3 drop: g(a)",
		"4 always: a == 1 and not b", "4 never: a == 1 and not b", "4 number: 1", "4 without: a == 1 and", "4 without: and not b",
		"5 drop: x.n, y = h(2), {c = 3}", "5 number: 2", "5 number: 3",
		"6 drop: redis.call('SET', KEYS[1], \"if 5\")",
		"7 always: a or b and f(a, b)", "7 never: a or b and f(a, b)", "7 without: a or", "7 without: or b and f(a, b)",
		"7 without: b and", "7 without: and f(a, b)",
		"8 without: a and", "8 without: and b", "8 without: a and b or", "8 without: or 'x'",
		"10 never: a < b", "10 drop: a = a + 1",
		"11 drop: n = m or 0", "11 without: m or", "11 without: or 0",
	}, ids)
}

// A mutant that Redis cannot compile would be noticed by any test.
func TestLua_MutantsOfOurScriptsCompile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../guard/*/lua/*.lua")
	require.NoError(t, err)
	more, err := filepath.Glob("../../../guard/internal/*/lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, more)
	n := 0
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range Lua(string(text)) {
			n++
			_, err := parse.Parse(strings.NewReader(m.Text), file)
			assert.NoErrorf(t, err, "%s %s", file, m.ID)
			assert.NotEqual(t, string(text), m.Text, m.ID)
		}
	}
	assert.Greater(t, n, 500)
}
