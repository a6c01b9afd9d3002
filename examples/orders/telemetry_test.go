package main

import (
	"bytes"
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

// collector keeps what is exported to it, by path.
type collector struct {
	mu   sync.Mutex
	sent map[string]*bytes.Buffer
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent[r.URL.Path] == nil {
		c.sent[r.URL.Path] = new(bytes.Buffer)
	}
	_, _ = io.Copy(c.sent[r.URL.Path], r.Body)
	w.WriteHeader(http.StatusOK)
}

func (c *collector) got(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.sent[path]; b != nil {
		return b.String()
	}
	return ""
}

func TestTelemetry_ExportsToACollector(t *testing.T) {
	t.Parallel()
	c := &collector{sent: map[string]*bytes.Buffer{}}
	server := httptest.NewServer(c)
	defer server.Close()
	code, _, stderr := orders(t, "", "-orders", "4", "-attempts", "4", "-otlp", strings.TrimPrefix(server.URL, "http://"))
	require.Equal(t, exitOK, code, stderr)
	// Protocol buffers hold names as they are.
	for _, span := range []string{
		"acquire POST /orders/:id/pay", "hold POST /orders/:id/pay",
		"acquire POST /admin/orders/{id}/settle", "hold order:charge", "hold stock",
		"redlatch.lock.key", "order:4",
	} {
		assert.Contains(t, c.got("/v1/traces"), span)
	}
	assert.Contains(t, c.got("/v1/metrics"), "redlatch.lock.wait.duration")
	assert.NotContains(t, c.got("/v1/metrics"), "order:4")
}

// What Prometheus scrapes: each metric, in seconds and by outcome, of the routes and of the shop's own locks.
func TestTelemetry_ServesMetrics(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	stderr, program := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"-serve", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-latency", "50ms"}, "", io.Discard, program)
		_ = program.Close()
	}()
	var said strings.Builder
	serving := regexp.MustCompile(`(?s)metrics on \D*([\d.]+:\d+).*serving on \D*([\d.]+:\d+)`)
	for buf := make([]byte, 4096); !serving.MatchString(said.String()); {
		n, err := stderr.Read(buf)
		require.NoError(t, err, said.String())
		said.Write(buf[:n])
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	addresses := serving.FindStringSubmatch(said.String())
	var metrics string
	for begun := time.Now(); !strings.Contains(metrics, `error_type="lock_busy"`) && time.Since(begun) < 20*time.Second; {
		var clients sync.WaitGroup // on a busy machine, they may come one after the other
		for _, path := range []string{"/orders/1/pay", "/orders/1/pay", "/orders/1/pay", "/admin/orders/1/settle"} {
			clients.Go(func() { request(t, http.MethodPost, "http://"+addresses[2]+path) })
		}
		clients.Wait()
		metrics = request(t, http.MethodGet, "http://"+addresses[1]+"/metrics")
	}
	for _, line := range []string{
		`redlatch_lock_wait_duration_seconds_bucket{.*le="0\.001"`, `redlatch_lock_wait_duration_seconds_bucket{.*le="0\.1"`,
		`redlatch_lock_wait_duration_seconds_bucket{.*le="30(\.0)?"`, `redlatch_lock_wait_duration_seconds_bucket{.*le="\+Inf"`,
		`redlatch_lock_wait_duration_seconds_count{error_type="lock_busy",.*redlatch_lock_outcome="busy"`,
		`redlatch_lock_hold_duration_seconds_sum{.*redlatch_lock_outcome="released"`, `redlatch_lock_active{`,
		`redlatch_lock_name="POST /orders/:id/pay"`, `redlatch_lock_name="POST /admin/orders/\{id\}/settle"`, `redlatch_lock_name="stock"`,
	} {
		assert.Regexp(t, line, metrics)
	}
	interrupt()
	assert.Equal(t, exitOK, <-code)
}

func TestTelemetry_ThatCannotStart(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	code, _, stderr := orders(t, "", "-otlp", "127.0.0.1:1", "-metrics", strings.TrimPrefix(taken.URL, "http://"))
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "address already in use")
}
