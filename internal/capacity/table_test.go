package capacity_test

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/capacity"
)

// What package capacity calculates with is in internal/docs/capacity.md, and what it calculates in
// docs/operate/capacity.md. -update writes the tables.
func TestTable_PagesHaveTheCalculatedTables(t *testing.T) {
	hasTables(t, "../docs/capacity.md", costs(), sizes())
	hasTables(t, "../../docs/operate/capacity.md", loads())
}

func hasTables(t *testing.T, document string, tables ...string) {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	guide := string(text)
	for _, table := range tables {
		head, _, _ := strings.Cut(table, "\n")
		_, after, found := strings.Cut(guide, head+"\n")
		require.True(t, found, head)
		rows, _, _ := strings.Cut(after, "\n\n")
		if *update {
			guide = strings.Replace(guide, head+"\n"+rows+"\n", table, 1)
			continue
		}
		assert.Equal(t, table, head+"\n"+rows+"\n", "go test ./internal/capacity -update writes it")
	}
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(guide), 0o600))
	}
}

func costs() string {
	p, text := capacity.Measured, "| what | µs of the core | a core does, each second |\n|---|---|---|\n"
	for _, row := range []struct {
		what string
		cost time.Duration
	}{
		{"free cycle: acquire and release", p.Cycle},
		{"free cycle, of 128 callers in one process", p.SharedCycle},
		{"hand-over from process to process", p.HandOver},
		{"busy answer", p.Busy},
		{"renewal, alone", p.RenewalAlone},
		{"renewal, in pipelines of hundreds", p.Renewal},
		{"enter a queue, and leave it without the lock", p.Queue},
		{"wait in front of a queue for a second", p.Waiting},
		{"new connection, without TLS", p.Connect},
		{"message on a cluster, on the node that sends it", p.Publish},
		{"message on a cluster, on each other node", p.Forward},
	} {
		text += fmt.Sprintf("| %s | %.1f | %s |\n", row.what, micro(row.cost), count(float64(time.Second)/float64(row.cost)))
	}
	return text
}

func sizes() string {
	p := capacity.Measured
	return fmt.Sprintf(`| what | bytes |
|---|---|
| held lock, with its fence | %d |
| remembered fence of a free lock, for a minute or twice the ttl | %d |
| queue of a key, with one process that waits | %d |
| connection | %d |
`, p.HeldBytes, p.RememberedBytes, p.QueueBytes, p.ConnectionBytes)
}

func loads() string {
	text := "| processes | shards | core | of it messages | connections | memory | after a failover | breaks first |\n|---|---|---|---|---|---|---|---|\n"
	for _, processes := range []int{1000, 10_000, 100_000} {
		for _, shards := range []int{1, 10, 100} {
			u := capacity.Measured.Use(capacity.Load{
				Shards: shards, Processes: processes, Cycles: 5 * float64(processes), HandOvers: 0.5 * float64(processes),
				Held: 100 * processes, TTL: 30 * time.Second, Waiting: processes / 10,
			})
			text += fmt.Sprintf("| %s | %d | %.0f %% | %.0f %% | %s | %s | %.2g s | %s |\n", count(float64(processes)), shards,
				100*u.Core, 100*u.Messages, count(float64(u.Connections)), size(u.Bytes), u.Backlog.Seconds(), cmp.Or(u.First(), "nothing"))
		}
	}
	return text
}

// count writes a number to two or three digits.
func count(n float64) string {
	switch {
	case n >= 10_000:
		n = float64(int(n/1000+0.5) * 1000)
	case n >= 100:
		n = float64(int(n/10+0.5) * 10)
	}
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func size(bytes float64) string {
	if bytes >= 1e9 {
		return fmt.Sprintf("%.1f GB", bytes/1e9)
	}
	return fmt.Sprintf("%.0f MB", bytes/1e6)
}
