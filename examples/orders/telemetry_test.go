package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

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
		"guard.lock.key", "order:4",
	} {
		assert.Contains(t, c.got("/v1/traces"), span)
	}
	assert.Contains(t, c.got("/v1/metrics"), "guard.lock.wait.duration")
	assert.NotContains(t, c.got("/v1/metrics"), "order:4")
}

func TestTelemetry_ThatCannotStart(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	code, _, stderr := orders(t, "", "-otlp", "127.0.0.1:1", "-metrics", strings.TrimPrefix(taken.URL, "http://"))
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "address already in use")
}
