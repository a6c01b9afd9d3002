package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// collector keeps the exported data by path.
type collector struct {
	mu   sync.Mutex
	sent map[string]string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[r.URL.Path] += string(body)
	w.WriteHeader(http.StatusOK)
}

func (c *collector) got(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[path]
}

// The program exports spans and metrics to a collector, and serves metrics to Prometheus, in seconds and by outcome.
func TestTelemetry_IsExportedAndServed(t *testing.T) {
	c := &collector{sent: map[string]string{}}
	exporter := httptest.NewServer(c)
	defer exporter.Close()
	ctx, stop := context.WithCancel(t.Context())
	stdout, program := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", strings.TrimPrefix(exporter.URL, "http://"), "", program) }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	url := regexp.MustCompile(`http://[\d.:]+`).FindString(line)
	require.NotEmpty(t, url, line)

	metrics := ""
	require.Eventually(t, func() bool {
		metrics = get(t, url+"/metrics")
		return strings.Contains(metrics, `redlatch_lock_outcome="released"`)
	}, 20*time.Second, 50*time.Millisecond)
	for _, line := range []string{
		`redlatch_lock_wait_duration_seconds_bucket{.*le="0\.001"`, `redlatch_lock_wait_duration_seconds_bucket{.*le="30(\.0)?"`,
		`redlatch_lock_hold_duration_seconds_sum{.*redlatch_lock_outcome="released"`, `redlatch_lock_active{`,
		`redlatch_lock_name="POST /orders/\{id\}/pay"`,
	} {
		assert.Regexp(t, line, metrics)
	}
	assert.Contains(t, get(t, url+"/locks/"), "<title>")

	stop()
	require.NoError(t, <-ended)
	// Protocol buffers have names as they are.
	for _, text := range []string{"acquire POST /orders/{id}/pay", "hold POST /orders/{id}/pay", "redlatch.lock.key", "order:1"} {
		assert.Contains(t, c.got("/v1/traces"), text)
	}
	assert.Contains(t, c.got("/v1/metrics"), "redlatch.lock.wait.duration")
	assert.NotContains(t, c.got("/v1/metrics"), "order:1")
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func TestRun_BadFlagsAreErrors(t *testing.T) {
	for want, args := range map[string][3]string{
		`-otlp "localhost" is not host:port`:       {"127.0.0.1:0", "localhost", ""},
		`-otlp ":4318" is not host:port`:           {"127.0.0.1:0", ":4318", ""},
		"REDIS_URL is not the URL of a Redis":      {"127.0.0.1:0", "", "redis://:secret@local host"},
		"address no-port: missing port in address": {"no-port", "", ""},
	} {
		err := run(t.Context(), args[0], args[1], args[2], io.Discard)
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
	}
}
