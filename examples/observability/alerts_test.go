package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAlerts_AskForEmittedMetrics(t *testing.T) {
	text, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	var exprs []string
	for _, m := range regexp.MustCompile(`(?m)^ +expr: (.+)$`).FindAllSubmatch(text, -1) {
		exprs = append(exprs, string(m[1]))
	}
	require.NotEmpty(t, exprs)
	asked(t, exprs)
}

// The runbook has a section for each alert, and each alert leads there.
func TestAlerts_EachHasASectionInTheRunbook(t *testing.T) {
	rules, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	runbook, err := os.ReadFile("../../docs/operate/runbook.md")
	require.NoError(t, err)
	var names, urls, sections []string
	for _, m := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllSubmatch(rules, -1) {
		names = append(names, string(m[1]))
	}
	for _, m := range regexp.MustCompile(`(?m)runbook_url: .*/docs/operate/runbook\.md#(\w+)$`).FindAllSubmatch(rules, -1) {
		urls = append(urls, string(m[1]))
	}
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllSubmatch(runbook, -1) {
		sections = append(sections, string(m[1]))
	}
	assert.Equal(t, names, sections)
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	assert.Equal(t, names, urls)
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
