package replay

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/mutants/table"
)

// BrokenScripts breaks the scripts, one rule at a time, and fails where nothing is noticed, or where
// something is though the table says why nothing can be. The rules are those of the table of make
// mutants that are replayed in a package.
func BrokenScripts(t *testing.T, pkg string, notices func(t *testing.T, alter func(name, source string) string) bool) {
	t.Helper()
	rows, err := table.Rows()
	require.NoError(t, err)
	n := 0
	for _, r := range rows {
		if r.Replayed() != pkg {
			continue
		}
		n++
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			alter := func(_, source string) string { return strings.ReplaceAll(source, r.Was, r.Is) } // a part may be included twice
			assert.Equal(t, r.Survives == "", notices(t, alter), "noticed %s", r.Survives)
		})
	}
	require.Positive(t, n)
}
