// Package redlatch_test runs the whole stack: two instances of a shop on one Redis, each with a route of
// echo, a route of net/http and a task of asynq that charge orders under the lock "order:{id}". The shop is
// in internal/stack/shop; its frameworks are requirements of that module, and not of guard's.
package redlatch_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestShop_OneChargeAtATimeForEachOrder(t *testing.T) {
	redis, bank := redistest.Start(t), openBank(t)
	shops := []*shop{startShop(t, redis, bank), startShop(t, redis, bank)}
	orders, entries := []string{"1", "2", "3"}, []string{"pay", "settle", "bill"} // echo, net/http, asynq

	const rounds = 5
	var requests sync.WaitGroup
	for range rounds {
		for _, order := range orders {
			for _, entry := range entries {
				for _, shop := range shops {
					requests.Go(func() { assert.Equal(t, "200 OK", shop.post(t, order, entry)) })
				}
			}
		}
	}
	charges := rounds * len(orders) * len(entries) * len(shops)
	for range charges {
		receive(t, bank.charges).accept()
	}
	requests.Wait()
	for _, name := range []string{"POST /orders/:id/pay", "POST /orders/{id}/settle", "order:bill"} {
		waitForSpan(t, shops, "acquire "+name) // the wait for the lock
		waitForSpan(t, shops, "hold "+name)
	}
}

func TestShop_CrashFreesTheOrderForTheOtherInstance(t *testing.T) {
	redis, bank := redistest.Start(t), openBank(t)
	crashing, other := startShop(t, redis, bank), startShop(t, redis, bank)

	go crashing.post(t, "1", "pay") // its client gets no answer
	receive(t, bank.charges)
	answer := make(chan string, 1)
	go func() { answer <- other.post(t, "1", "settle") }()
	crashing.kill(t)

	receive(t, bank.charges).accept()
	assert.Equal(t, "200 OK", receive(t, answer))
}

func TestShop_LostLockEndsTheWork(t *testing.T) {
	redis, bank := redistest.Start(t), openBank(t)
	shop := startShop(t, redis, bank)

	answer := make(chan string, 1)
	go func() { answer <- shop.post(t, "1", "pay") }()
	charge := receive(t, bank.charges)
	require.NoError(t, redis.Client(t).Del(t.Context(), "shop:{order:1}").Err())

	receive(t, charge.cancelled) // the context of the handler ended, and with it its request to the bank
	assert.Equal(t, "500 Internal Server Error", receive(t, answer))
}

// bank sees each charge while it is being made. It fails the test if two charge one order at a time, or if
// the fencing tokens of an order do not grow.
type bank struct {
	url     string
	charges chan charge

	mu     sync.Mutex // protects what follows
	inside map[string]bool
	fences map[string]uint64
}

// charge waits in the bank until the test accepts it, or its client leaves.
type charge struct {
	accept    func()
	cancelled <-chan struct{}
}

func openBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{charges: make(chan charge), inside: map[string]bool{}, fences: map[string]uint64{}}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		order := r.FormValue("order")
		fence, err := strconv.ParseUint(r.FormValue("fence"), 10, 64)
		assert.NoError(t, err)
		b.enter(t, order, fence)
		accepted, cancelled := make(chan struct{}), r.Context().Done()
		select {
		case b.charges <- charge{func() { close(accepted) }, cancelled}:
		case <-cancelled:
		}
		select {
		case <-accepted:
		case <-cancelled:
		}
		b.leave(order)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *bank) enter(t *testing.T, order string, fence uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Falsef(t, b.inside[order], "two charge order %s at a time", order)
	assert.Greater(t, fence, b.fences[order])
	b.inside[order], b.fences[order] = true, fence
}

func (b *bank) leave(order string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside[order] = false
}

// receive fails the test instead of waiting forever.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(30 * time.Second):
		require.FailNow(t, "nothing came within 30 s")
		panic("unreachable")
	}
}

// shop is a process.
type shop struct {
	url     string
	process *exec.Cmd
}

func startShop(t *testing.T, redis *redistest.Server, b *bank) *shop {
	t.Helper()
	s := &shop{process: exec.CommandContext(t.Context(), shopProgram, redis.Addr(), b.url)}
	s.process.Stderr = t.Output()
	stdout, err := s.process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.process.Start())
	t.Cleanup(func() {
		_ = s.process.Wait() // t.Context has ended, which killed it
		http.DefaultClient.CloseIdleConnections()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	s.url = strings.TrimSpace(line)
	return s
}

// kill ends the process as a crash does.
func (s *shop) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, s.process.Process.Kill())
}

// post returns the status of the answer, "" without one.
func (s *shop) post(t *testing.T, order, entry string) (status string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/orders/"+order+"/"+entry, http.NoBody)
	assert.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	return resp.Status
}

// waitForSpan waits until a shop has exported a span of that name. Each task runs in one of the shops.
func waitForSpan(t *testing.T, shops []*shop, name string) {
	t.Helper()
	assert.Eventually(t, func() bool { return slices.ContainsFunc(shops, func(s *shop) bool { return s.hasSpan(name) }) },
		10*time.Second, 10*time.Millisecond, name)
}

func (s *shop) hasSpan(name string) bool {
	resp, err := http.Get(s.url + "/spans")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	names, err := io.ReadAll(resp.Body)
	return err == nil && slices.Contains(strings.Split(string(names), "\n"), name)
}

var shopProgram string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "shop-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shopProgram = filepath.Join(dir, "shop")
	race := false // as of this test, so that both share what is compiled already
	if info, ok := debug.ReadBuildInfo(); ok {
		race = slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
	}
	build := exec.Command("go", "build", "-race="+strconv.FormatBool(race), "-o", shopProgram, "./shop")
	build.Dir = "internal/stack"
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Printf("%v: %v\n%s", build, err, out)
		return 1
	}
	return redistest.Run(m)
}
