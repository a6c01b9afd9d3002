package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// demo runs the program to its end.
func demo(t *testing.T, redisURL string, args ...string) (code int, stdout, stderr string) {
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

func TestDemo_GuardedChargesExactlyOnce(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := demo(t, "", "-orders", "20", "-attempts", "8")
	require.Equal(t, exitOK, code, stderr)
	got := rows(t, stdout)
	assert.Positive(t, got["answered busy"], "no attempt met another")
	delete(got, "answered busy")
	assert.Equal(t, map[string]int{
		"orders": 20, "attempts": 160, "paid": 20, "double charges": 0, "stock drift": 0,
	}, got)
	assert.Contains(t, stderr, "every order was charged exactly once")
}

func TestDemo_UnguardedChargesTwice(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := demo(t, "", "-orders", "20", "-attempts", "8", "-unguarded")
	assert.Equal(t, exitFailed, code)
	got := rows(t, stdout)
	assert.Positive(t, got["double charges"])
	assert.Positive(t, got["stock drift"])
	assert.Zero(t, got["answered busy"])
	assert.Contains(t, stderr, "charges too many")
}

// Several runs at a time share a Redis without noticing each other, and leave it as they found it.
func TestDemo_RunsShareARedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var runs sync.WaitGroup
	for range 2 {
		runs.Go(func() {
			code, stdout, stderr := demo(t, server.URL(), "-orders", "10")
			assert.Equal(t, exitOK, code, stderr)
			assert.Equal(t, 10, rows(t, stdout)["paid"])
		})
	}
	runs.Wait()
	assert.Empty(t, server.Client(t).Keys(t.Context(), "*").Val())
}

// serve runs the program with -serve until the test ends, and returns its URL.
func serve(t *testing.T, redisURL string, args ...string) (baseURL string) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	stdout, program := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append(args, "-serve", "127.0.0.1:0"), redisURL, program, io.Discard)
		_ = program.Close()
	}()
	t.Cleanup(func() {
		interrupt()
		assert.Equal(t, exitOK, <-code)
	})
	// The first line has the URL. The others are read so that the program does not block.
	buf := make([]byte, 4096)
	n, err := stdout.Read(buf)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	baseURL = regexp.MustCompile(`http://[\d.]+:\d+`).FindString(string(buf[:n]))
	require.NotEmpty(t, baseURL, "%s", buf[:n])
	return baseURL
}

func TestDemo_ServesRoutesAndTasks(t *testing.T) {
	t.Parallel()
	baseURL := serve(t, "", "-latency", "20ms")
	for _, row := range []struct{ method, path, answer string }{
		{http.MethodPost, "/orders/1/pay", `{"order":"1","status":"paid"}`},
		{http.MethodPost, "/admin/orders/1/settle", `{"order":"1","status":"already paid"}`},
		{http.MethodPost, "/orders/2/charge", `{"order":"2","status":"queued"}`},
		{http.MethodGet, "/orders/1", `{"order":"1","status":"paid"}`},
		{http.MethodPost, "/orders/999/pay", "no such order"},
		{http.MethodPost, "/admin/orders/999/settle", "no such order"},
		{http.MethodGet, "/locks/lock?key=order:7", "This key is free."},
	} {
		assert.Contains(t, request(t, row.method, baseURL+row.path), row.answer)
	}
}

func request(t *testing.T, method, url string) (body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

func TestDemo_InterruptedBurstFails(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, errs bytes.Buffer
	assert.Equal(t, exitFailed, run(ctx, nil, "", &out, &errs))
	assert.Contains(t, errs.String(), "context canceled")
}

func TestDemo_BadUsage(t *testing.T) {
	for _, test := range []struct {
		args     []string
		redisURL string
		code     int
		says     string
	}{
		{[]string{"-help"}, "", exitOK, "-unguarded"},
		{[]string{"-orders", "0"}, "", exitUsage, "-orders, -attempts and -workers are 1 at least"},
		{[]string{"-latency", "-1s"}, "", exitUsage, "-latency -1s is negative"},
		{[]string{"-no-such-flag"}, "", exitUsage, "no-such-flag"},
		{[]string{"stray"}, "", exitUsage, `unexpected argument "stray"`},
		{[]string{"-serve", "no-port"}, "", exitFailed, "no-port"},
		{nil, "http://:secret@localhost", exitFailed, "REDIS_URL"},
		{nil, "redis://:secret@local host", exitFailed, "REDIS_URL"},
		{nil, "redis://:secret@127.0.0.1:1", exitFailed, "no Redis at 127.0.0.1:1"},
	} {
		code, stdout, stderr := demo(t, test.redisURL, test.args...)
		assert.Equal(t, test.code, code, test.says)
		assert.Contains(t, stderr, test.says)
		assert.NotContains(t, stderr, "secret")
		assert.Empty(t, stdout)
	}
}
