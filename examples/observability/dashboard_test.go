// The dashboard and the alerts ask for metrics that package tracing emits.
package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/tracing"
)

// queries returns all queries of the dashboard.
func queries(t *testing.T) (found []string) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	for _, m := range regexp.MustCompile(`"(?:expr|definition)": (".*")`).FindAllSubmatch(text, -1) {
		var query string
		require.NoError(t, json.Unmarshal(m[1], &query))
		found = append(found, query)
	}
	require.NotEmpty(t, found)
	return found
}

// emitted returns the metrics in Prometheus, and their labels.
func emitted(t *testing.T) (metrics, labels map[string]bool) {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	require.NoError(t, err)
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	observeEverything(t, tracing.New(tracing.WithMeterProvider(provider)))

	families, err := registry.Gather()
	require.NoError(t, err)
	metrics, labels = map[string]bool{}, map[string]bool{"le": true, "job": true, "instance": true} // the last are Prometheus's own
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, "redlatch_") {
			continue
		}
		metrics[name] = true
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = true
			}
		}
	}
	return metrics, labels
}

func observeEverything(t *testing.T, o guard.Observer) {
	l, hold := guard.Lock{Name: "order", Key: "order:42"}, guard.Hold{Fence: 1, Depth: 1}
	o.WaitEnd(o.WaitStart(t.Context(), l), l, guard.WaitResult{Outcome: guard.OutcomeBusy, Err: guard.ErrBusy})
	o.HoldEnd(o.HoldStart(t.Context(), l, hold), l, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
	for kind := guard.EventRenewal; kind <= guard.EventNotKept; kind++ {
		o.Event(t.Context(), l, guard.Event{Kind: kind})
	}
}

var (
	metricName = regexp.MustCompile(`\bredlatch_(?:lock|once)_\w+`)
	selection  = regexp.MustCompile(`\{[^}]*\}|by \([^)]*\)`)
	labelName  = regexp.MustCompile(`\b([a-z_]+)\s*(?:[=!]|[,)])`)
)

func TestDashboard_AsksForEachMetric(t *testing.T) {
	metrics, _ := emitted(t)
	assert.Equal(t, metrics, asked(t, queries(t)), "every metric has its place on the dashboard")
}

// asked returns the metrics of queries, if they and their labels are emitted.
func asked(t *testing.T, queries []string) map[string]bool {
	t.Helper()
	metrics, labels := emitted(t)
	asked := map[string]bool{}
	for _, query := range queries {
		bare := selection.ReplaceAllString(query, "") // label names look like metrics
		bare = strings.TrimSuffix(bare, ", redlatch_lock_name)")
		names := metricName.FindAllString(bare, -1)
		assert.Len(t, names, 1, query)
		for _, name := range names {
			for _, part := range []string{"_bucket", "_count", "_sum"} {
				name = strings.TrimSuffix(name, part)
			}
			asked[name] = true
			assert.Contains(t, metrics, name, query)
		}
		for _, part := range selection.FindAllString(query, -1) {
			for _, label := range labelName.FindAllStringSubmatch(part, -1) {
				assert.Contains(t, labels, label[1], query)
			}
		}
	}
	return asked
}

// The compose file mounts files that exist, and each file here is mounted.
func TestDashboard_ComposeFileMountsEachFile(t *testing.T) {
	compose, err := os.ReadFile("compose.yaml")
	require.NoError(t, err)
	mounted := map[string]bool{}
	for _, mount := range regexp.MustCompile(`[\s"]\./([\w./-]+):/`).FindAllSubmatch(compose, -1) {
		mounted[filepath.FromSlash(string(mount[1]))] = true
	}
	there := map[string]bool{}
	for _, pattern := range []string{"*.json", "*.yaml", "grafana/*"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			there[file] = true
		}
	}
	delete(there, "compose.yaml")
	assert.Equal(t, there, mounted)
	for _, service := range []string{"app", "redis", "collector", "prometheus", "grafana", "jaeger"} {
		assert.Regexp(t, `(?m)^  `+service+`:\n    image: .+:\S*\d$`, string(compose))
	}
}
