package guard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestInstance_HasItsBounds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, want string }{
		{"", ""},
		{"web-1", ""},
		{"Pod Nr. 7, München", ""},
		{strings.Repeat("n", guard.MaxInstanceLength), ""},
		{strings.Repeat("n", guard.MaxInstanceLength+1), "guard: Instance has 129 bytes, the most is 128"},
		{strings.Repeat("ü", guard.MaxInstanceLength/2+1), "guard: Instance has 130 bytes, the most is 128"},
		{"web\xff", "guard: Instance is not UTF-8"},
	} {
		g, err := guard.NewWithStore(guardtest.NewStore(), guard.Instance(row.name))
		if row.want == "" {
			require.NoError(t, err)
			require.NoError(t, g.Close())
			continue
		}
		require.EqualError(t, err, row.want)
		var option *guard.OptionError
		require.ErrorAs(t, err, &option)
		assert.Equal(t, "Instance", option.Option)
	}
}
