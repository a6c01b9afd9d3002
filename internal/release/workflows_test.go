package release

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	used   = regexp.MustCompile(`(?m)^\s*(?:- )?uses: (.*)$`)
	pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	least  = regexp.MustCompile(`(?m)^permissions:\n  contents: read$`)
)

// A tag of an action can be moved to other code, and a job without permissions of its own gets those of the workflow.
func TestWorkflows_PinTheirActionsAndHaveTheLeastRights(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	actions := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Regexp(t, least, string(text), file)
		for _, action := range used.FindAllStringSubmatch(string(text), -1) {
			assert.Regexp(t, pinned, action[1], file)
			actions++
		}
	}
	assert.NotZero(t, actions)
}
