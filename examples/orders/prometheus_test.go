package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// requireEnv, set to 1, makes a missing Prometheus a failure.
const requireEnv = "REDLATCH_REQUIRE_PROMETHEUS"

// scrapeTimeout is how long a Prometheus may take to start and to scrape.
const scrapeTimeout = time.Minute

// A real Prometheus scrapes the example, and understands what the dashboard asks.
func TestPrometheus_ScrapesTheExample(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		const hint = "there is no prometheus; scripts/install-prometheus.sh installs it"
		if os.Getenv(requireEnv) == "1" {
			t.Fatalf("%s=1, but %s", requireEnv, hint)
		}
		t.Skip(hint)
	}
	baseURL, metrics := serveMetered(t)
	contend(t, baseURL)
	p := startPrometheus(t, binary, metrics)

	found := p.await(t, `guard_lock_wait_duration_seconds_bucket`)
	bounds := map[string]bool{}
	names := map[string]bool{}
	for _, series := range found {
		bounds[series["le"]] = true
		names[series["guard_lock_name"]] = true
	}
	for _, bound := range []string{"0.001", "0.1", "30.0", "+Inf"} {
		assert.True(t, bounds[bound] || bounds[strings.TrimSuffix(bound, ".0")], "no bucket %s in %v", bound, bounds)
	}
	for _, name := range []string{"POST /orders/:id/pay", "POST /admin/orders/{id}/settle", "stock"} {
		assert.Contains(t, names, name)
	}
	assert.NotEmpty(t, p.await(t, `guard_lock_wait_duration_seconds_count{error_type="lock_busy", guard_lock_outcome="busy"}`))
	assert.NotEmpty(t, p.await(t, `guard_lock_hold_duration_seconds_sum{guard_lock_outcome="released"}`))
	assert.NotEmpty(t, p.await(t, `guard_lock_active`))
	for _, query := range dashboardQueries(t) {
		_, err := p.query(t.Context(), query)
		assert.NoError(t, err, query)
	}
}

// serveMetered runs the program until the test ends. It gives the URL of the shop and
// the address of the metrics.
func serveMetered(t *testing.T) (baseURL, metrics string) {
	t.Helper()
	ctx, interrupt := context.WithCancel(context.WithoutCancel(t.Context()))
	stderr, program := io.Pipe()
	code := make(chan int, 1)
	go func() {
		args := []string{"-serve", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-latency", "50ms"}
		code <- run(ctx, args, "", io.Discard, program)
		_ = program.Close()
	}()
	t.Cleanup(func() {
		interrupt()
		assert.Equal(t, exitOK, <-code)
	})

	lines := bufio.NewScanner(stderr)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	for baseURL == "" && lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "metrics on "):
			metrics = address.FindString(line)
		case strings.HasPrefix(line, "serving on "):
			baseURL = "http://" + address.FindString(line)
		}
	}
	require.NotEmpty(t, metrics)
	require.NotEmpty(t, baseURL)
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	return baseURL, metrics
}

// contend pays an order in several ways at a time.
func contend(t *testing.T, baseURL string) {
	t.Helper()
	var clients sync.WaitGroup
	for _, path := range []string{"/orders/1/pay", "/orders/1/pay", "/orders/1/pay", "/admin/orders/1/settle"} {
		clients.Go(func() { request(t, http.MethodPost, baseURL+path) })
	}
	clients.Wait()
}

// dashboardQueries are those of the dashboard, as Grafana would send them.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "observability", "dashboard.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	var queries []string
	variables := strings.NewReplacer("$__rate_interval", "1m", "$name", ".*")
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, variables.Replace(target.Expr))
		}
	}
	require.NotEmpty(t, queries)
	return queries
}

// prometheusServer is a Prometheus that runs for a test.
type prometheusServer struct {
	url    string
	client *http.Client
	log    string
}

const prometheusConfig = `
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
  - job_name: orders
    static_configs: [{targets: [%q]}]
`

// startPrometheus has a Prometheus scrape target.
func startPrometheus(t *testing.T, binary, target string) *prometheusServer {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, prometheusConfig, target), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().String()
	require.NoError(t, free.Close())

	// The shell's input ends when this process does, however that happens: no Prometheus
	// outlives its test.
	cmd := exec.Command("sh", "-c", `"$@" </dev/null & cat >/dev/null; kill $!; wait`, "sh",
		binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	cmd.Stdout, cmd.Stderr = log, log
	stop, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &prometheusServer{"http://" + addr, &http.Client{Timeout: scrapeTimeout, Transport: &http.Transport{}}, log.Name()}
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		_ = stop.Close()
		_ = cmd.Wait()
	})
	return p
}

// await asks until there is an answer that is not empty. It gives the labels of the
// series.
func (p *prometheusServer) await(t *testing.T, query string) (series []map[string]string) {
	t.Helper()
	if !assert.Eventually(t, func() bool {
		var err error
		series, err = p.query(context.WithoutCancel(t.Context()), query)
		return err == nil && len(series) > 0
	}, scrapeTimeout, 100*time.Millisecond, query) {
		log, _ := os.ReadFile(p.log)
		t.Fatalf("prometheus said:\n%s", log)
	}
	return series
}

func (p *prometheusServer) query(ctx context.Context, query string) ([]map[string]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/query?query="+url.QueryEscape(query), http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("status %q: %s", answer.Status, answer.Error)
	}
	var series []map[string]string
	for _, result := range answer.Data.Result {
		series = append(series, result.Metric)
	}
	return series, nil
}
