package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// programEnv makes the test binary the program that it tests.
const programEnv = "ORDERS_TEST_PROGRAM"

func init() {
	if os.Getenv(programEnv) != "" {
		main()
	}
}

// startProgram runs the program as a process of its own, and gives its address.
func startProgram(t *testing.T, redisURL string, args ...string) (program *exec.Cmd, baseURL string) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	program = exec.CommandContext(t.Context(), binary, args...)
	program.Env = append(os.Environ(), programEnv+"=1", "REDIS_URL="+redisURL)
	program.Stderr = t.Output()
	stdout, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if baseURL = regexp.MustCompile(`http://[\d.]+:\d+`).FindString(lines.Text()); baseURL != "" {
			return program, baseURL
		}
	}
	require.FailNow(t, "the program does not say where it serves")
	return nil, ""
}

// reply is what a client sees.
type reply struct {
	status int
	header http.Header
	body   map[string]any
}

func ask(t *testing.T, url string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	got := reply{res.StatusCode, res.Header, nil}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&got.body))
	return got
}

// assertProblem checks an answer of redlatch's own against what is documented.
func assertProblem(t *testing.T, got reply, status int, code string, retry bool) {
	t.Helper()
	assert.Equal(t, status, got.status)
	assert.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
	assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
	assert.Equal(t, code, got.body["code"])
	assert.EqualValues(t, status, got.body["status"])
	assert.NotEmpty(t, got.body["type"])
	assert.NotEmpty(t, got.body["title"])
	assert.NotEmpty(t, got.body["detail"])
	if !retry {
		assert.Empty(t, got.header.Get("Retry-After"))
		assert.NotContains(t, got.body, "retry_after")
		return
	}
	seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
	assert.NoError(t, err)
	assert.Positive(t, seconds)
	assert.EqualValues(t, seconds, got.body["retry_after"])
}

// The page shows an order while it is being paid.
func TestServe_ServedPageOfLocks(t *testing.T) {
	t.Parallel()
	program, baseURL := startProgram(t, "", "-serve", "127.0.0.1:0", "-latency", "1s")
	var paid sync.WaitGroup
	paid.Go(func() { ask(t, baseURL+"/orders/7/pay") })
	assert.Eventually(t, func() bool {
		return strings.Contains(request(t, http.MethodGet, baseURL+"/locks/lock?key=order:7"), "order:7</bdi> <b class=\"pill held\">held</b>")
	}, 20*time.Second, 10*time.Millisecond)
	assert.Contains(t, request(t, http.MethodGet, baseURL+"/"), "order:7") // the root leads to /locks/
	paid.Wait()
	assert.Contains(t, request(t, http.MethodGet, baseURL+"/locks/lock?key=order:7"), "This key is free.")
	require.NoError(t, program.Process.Signal(os.Interrupt))
	require.NoError(t, program.Wait())
}

// What a client gets to see of the locks, from a program of its own, with the shop's route
// on echo and the back office's on net/http.
func TestServe_ServedAnswers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	program, baseURL := startProgram(t, server.URL(), "-serve", "127.0.0.1:0", "-latency", "300ms")
	pay := func(order string) string { return baseURL + "/orders/" + order + "/pay" }
	settle := func(order string) string { return baseURL + "/admin/orders/" + order + "/settle" }

	for _, url := range []string{pay("1"), settle("2")} {
		got := ask(t, url)
		assert.Equal(t, http.StatusOK, got.status)
		assert.Equal(t, "paid", got.body["status"])
	}

	var clicks sync.WaitGroup
	var replies [2]reply
	for i := range replies {
		clicks.Go(func() { replies[i] = ask(t, pay("3")) })
	}
	clicks.Wait()
	if replies[0].status != http.StatusOK {
		replies[0], replies[1] = replies[1], replies[0]
	}
	assert.Equal(t, http.StatusOK, replies[0].status)
	assertProblem(t, replies[1], http.StatusConflict, "lock_busy", true)

	for _, url := range []string{pay("%FF"), settle("%FF")} {
		assertProblem(t, ask(t, url), http.StatusBadRequest, "lock_key_invalid", false)
	}

	server.Kill()
	for _, url := range []string{pay("4"), settle("4")} {
		assertProblem(t, ask(t, url), http.StatusServiceUnavailable, "lock_store_unavailable", true)
	}
	server.Restart(t)
	for _, url := range []string{pay("4"), settle("5")} {
		require.Eventually(t, func() bool { return ask(t, url).status == http.StatusOK }, 30*time.Second, 50*time.Millisecond)
	}

	require.NoError(t, program.Process.Signal(os.Interrupt))
	assert.NoError(t, program.Wait())
}
