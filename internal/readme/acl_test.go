package readme

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var aclLine = regexp.MustCompile(`(?m)^ACL SETUSER redlatch (.*)$`)

// The guide grants the rights of SECURITY.md, which are tested on a server, but for those of a cluster.
func TestACL_RightsInProductionGuideAreThoseOfSecurity(t *testing.T) {
	guide := aclLine.FindStringSubmatch(read(t, "docs/production.md"))
	require.NotNil(t, guide)
	granted := append(strings.Fields(guide[1]), "reset", ">PASSWORD", "+cluster|slots", "+command", "+asking")
	for _, line := range aclLine.FindAllStringSubmatch(read(t, "SECURITY.md"), -1) {
		assert.Subset(t, granted, strings.Fields(line[1]))
	}
}
