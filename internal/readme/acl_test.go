package readme_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var aclLine = regexp.MustCompile(`(?m)^ACL SETUSER redlatch (.*)$`)

// The guide grants the rights of SECURITY.md, which are tested on a server, but for those of a cluster.
func TestACL_RightsInProductionGuideAreThoseOfSecurity(t *testing.T) {
	guide, err := os.ReadFile("../../docs/production.md")
	require.NoError(t, err)
	security, err := os.ReadFile("../../SECURITY.md")
	require.NoError(t, err)
	line := aclLine.FindSubmatch(guide)
	require.NotNil(t, line)
	granted := strings.Fields(string(line[1]))
	for _, line := range aclLine.FindAllSubmatch(security, -1) {
		for _, right := range strings.Fields(string(line[1])) {
			switch right {
			case "reset", ">PASSWORD", "+cluster|slots", "+command", "+asking":
			default:
				assert.Contains(t, granted, right)
			}
		}
	}
}
