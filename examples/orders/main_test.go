package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// orders runs the program to its end.
func orders(t *testing.T, redisURL string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, redisURL, &out, &errs)
	return code, out.String(), errs.String()
}

// rows are those of the table.
func rows(t *testing.T, stdout string) map[string]int {
	t.Helper()
	got := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^(\D+?) +(\d+)`).FindAllStringSubmatch(stdout, -1) {
		n, err := strconv.Atoi(row[2])
		require.NoError(t, err)
		got[row[1]] = n
	}
	return got
}

func TestOrders_GuardedChargesExactlyOnce(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := orders(t, "", "-orders", "20", "-attempts", "8")
	require.Equal(t, exitOK, code, stderr)
	got := rows(t, stdout)
	assert.Positive(t, got["answered busy"], "nobody contended")
	delete(got, "answered busy")
	assert.Equal(t, map[string]int{
		"orders": 20, "attempts": 160, "paid": 20, "double charges": 0, "stock drift": 0,
	}, got)
	assert.Contains(t, stderr, "every order was charged exactly once")
}

func TestOrders_UnguardedChargesTwice(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := orders(t, "", "-orders", "20", "-attempts", "8", "-unguarded")
	assert.Equal(t, exitFailed, code)
	got := rows(t, stdout)
	assert.Positive(t, got["double charges"])
	assert.Positive(t, got["stock drift"])
	assert.Zero(t, got["answered busy"])
	assert.Contains(t, stderr, "charges too many")
}

// Several runs at a time share a Redis without noticing each other, and leave it as
// they found it.
func TestOrders_RunsShareARedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	require.NoError(t, rdb.Set(t.Context(), "theirs", "1", 0).Err())

	var runs sync.WaitGroup
	for range 2 {
		runs.Go(func() {
			code, stdout, stderr := orders(t, server.URL(), "-orders", "10")
			assert.Equal(t, exitOK, code, stderr)
			assert.Equal(t, 10, rows(t, stdout)["paid"])
		})
	}
	runs.Wait()
	left, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	assert.Equal(t, []string{"theirs"}, left)
}

func TestOrders_ServeUntilInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	stdout, program := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"-serve", "127.0.0.1:0", "-latency", "20ms"}, "", program, io.Discard)
		_ = program.Close()
	}()

	// What is printed first has the address; the rest is read so that nothing blocks.
	buf := make([]byte, 4096)
	n, err := stdout.Read(buf)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	baseURL := regexp.MustCompile(`http://[\d.]+:\d+`).FindString(string(buf[:n]))
	require.NotEmpty(t, baseURL, "%s", buf[:n])

	assert.JSONEq(t, `{"order":"1","status":"paid"}`, request(t, http.MethodPost, baseURL+"/orders/1/pay"))
	assert.JSONEq(t, `{"order":"1","status":"already paid"}`, request(t, http.MethodPost, baseURL+"/admin/orders/1/settle"))
	assert.JSONEq(t, `{"order":"2","status":"queued"}`, request(t, http.MethodPost, baseURL+"/orders/2/charge"))
	assert.JSONEq(t, `{"order":"1","status":"paid"}`, request(t, http.MethodGet, baseURL+"/orders/1"))
	assert.Contains(t, request(t, http.MethodPost, baseURL+"/orders/999/pay"), "no such order")
	assert.Contains(t, request(t, http.MethodPost, baseURL+"/admin/orders/999/settle"), "no such order")

	interrupt()
	assert.Equal(t, exitOK, <-code)
}

func request(t *testing.T, method, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(body)
}

func TestOrders_InterruptedBurstFails(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, errs bytes.Buffer
	assert.Equal(t, exitFailed, run(ctx, nil, "", &out, &errs))
	assert.Contains(t, errs.String(), "context canceled")
}

func TestOrders_BadUsage(t *testing.T) {
	for _, test := range []struct {
		args     []string
		redisURL string
		code     int
		says     string
	}{
		{[]string{"-help"}, "", exitOK, "-unguarded"},
		{[]string{"-orders", "0"}, "", exitUsage, "-orders, -attempts and -workers are 1 at least"},
		{[]string{"-attempts", "0"}, "", exitUsage, "-orders, -attempts and -workers are 1 at least"},
		{[]string{"-workers", "-1"}, "", exitUsage, "-orders, -attempts and -workers are 1 at least"},
		{[]string{"-latency", "-1s"}, "", exitUsage, "-latency -1s is negative"},
		{[]string{"-no-such-flag"}, "", exitUsage, "no-such-flag"},
		{[]string{"stray"}, "", exitUsage, `unexpected argument "stray"`},
		{[]string{"-serve", "no-port"}, "", exitFailed, "no-port"},
		{nil, "http://:secret@localhost", exitFailed, "REDIS_URL"},
		{nil, "redis://:secret@local host", exitFailed, "REDIS_URL"},
		{nil, "redis://u:secret/half@localhost", exitFailed, "REDIS_URL"},
		{nil, "redis://:secret@127.0.0.1:1", exitFailed, "no Redis at 127.0.0.1:1"},
	} {
		t.Run(strings.Join(append(test.args, test.redisURL), " "), func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := orders(t, test.redisURL, test.args...)
			assert.Equal(t, test.code, code)
			assert.Contains(t, stderr, test.says)
			assert.NotContains(t, stderr, "secret")
			assert.Empty(t, stdout)
		})
	}
}
