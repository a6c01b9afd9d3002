package main

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func alerts(t *testing.T) (exprs []string) {
	t.Helper()
	text, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^ +expr: (.+)$`).FindAllSubmatch(text, -1) {
		exprs = append(exprs, string(m[1]))
	}
	require.NotEmpty(t, exprs)
	return exprs
}

func TestAlerts_AskForWhatIsEmitted(t *testing.T) {
	asked(t, alerts(t))
}

// docs/production.md has the same expressions.
func TestAlerts_AreThoseOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/production.md")
	require.NoError(t, err)
	var documented []string
	for _, m := range regexp.MustCompile(`(?m)^(?:sum|max) by .+$`).FindAll(text, -1) {
		documented = append(documented, string(m))
	}
	assert.ElementsMatch(t, alerts(t), documented)
}

// The first loss fires, and a revoke does not.
func TestAlerts_FireAtTheFirstEvent(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		const hint = "promtool is not installed: scripts/install.sh promtool does it"
		require.NotEqual(t, "1", os.Getenv("REDLATCH_REQUIRE_PROMTOOL"), hint)
		t.Skip(hint)
	}
	out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", "testdata/alerts_test.yaml").CombinedOutput()
	require.NoError(t, err, string(out))
}
