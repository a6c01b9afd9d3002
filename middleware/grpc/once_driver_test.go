//go:build unix

package guardgrpc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
)

// The driver of Once: shops in processes of their own charge orders, and are killed at any moment. Their clients do not
// wait for long, and ask again at another shop. What was charged is known to a bank, which is in the process of the
// test.
const (
	shopEnv = "REDLATCH_TEST_SHOP" // the process is a shop: "address of Redis,URL of the bank,mode"

	kills         = 24  // shops, in each mode
	timeouts      = 100 // clients at least, in each mode
	shops         = 3
	shopClients   = 8
	callsPerOrder = 6
	shopTTL       = 300 * time.Millisecond
)

// TestShopProcess is a shop. In a normal run it does nothing.
func TestShopProcess(t *testing.T) {
	setup := strings.Split(os.Getenv(shopEnv), ",")
	if len(setup) != 3 {
		t.Skip("it is a process of TestOnce_ShopsThatAreKilled")
	}
	till := &till{bank: setup[1], shop: strconv.Itoa(os.Getpid())}
	g, err := guard.New(redis.NewClient(&redis.Options{Addr: setup[0]}), guard.TTL(shopTTL), guard.Observe(till))
	require.NoError(t, err)
	var once []guard.OnceOption
	if setup[2] == atMostOnce {
		once = append(once, guard.AtMostOnce())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(guardgrpc.Unary(g, guardgrpc.Methods{pay: pays().Once(time.Hour, once...).SharedAnswer()})))
	server.RegisterService(&description, &service{pay: till.pay})
	go func() { _ = server.Serve(listener) }()
	fmt.Println("shop:", till.shop, listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is gone
	os.Exit(0)
}

const atMostOnce = "at most once"

// till is where a shop charges orders: its handler, and an Observer.
type till struct {
	guard.NopObserver
	bank, shop string
}

var errDeclined = errors.New("declined")

// tell tells the bank what happens to an order under a fence.
func (s *till) tell(what, order string, fence uint64) (answer string, err error) {
	resp, err := http.PostForm(s.bank+"/"+what, url.Values{"shop": {s.shop}, "order": {order}, "fence": {fmt.Sprint(fence)}})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// pay charges an order, or, each eighth time, fails after it has taken that back. It is killed, and its client leaves,
// at any moment.
func (s *till) pay(ctx context.Context, _ any) (any, error) {
	lease, _ := guard.FromContext(ctx)
	order, fence := strings.TrimPrefix(lease.Key(), "order:"), lease.Fence()
	receipt, err := s.tell("charge", order, fence)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(rand.N(8 * time.Millisecond)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if rand.N(8) == 0 {
		_, err = s.tell("decline", order, fence)
		return nil, errors.Join(errDeclined, err)
	}
	return newResponse(receipt), nil
}

func orderOf(l guard.Lock) string { return strings.TrimPrefix(l.Key, "order:") }

// HoldEnd tells the bank that Redis has the outcome of an order, or that its lock was lost.
func (s *till) HoldEnd(_ context.Context, l guard.Lock, r guard.HoldResult) {
	if r.Err != nil {
		_, _ = s.tell("lose", orderOf(l), r.Fence)
	}
	_, _ = s.tell("end", orderOf(l), r.Fence)
}

// Event tells the bank that Redis may not have the outcome of an order.
func (s *till) Event(_ context.Context, l guard.Lock, e guard.Event) {
	if e.Kind == guard.EventReleaseFailure {
		_, _ = s.tell("lose", orderOf(l), 0)
	}
}

// account is what the bank knows of an order.
type account struct {
	charges, declined int
	crashes           int // shops that were killed between the charge and its outcome in Redis
	lost              int // locks that were lost
	receipts          map[string]bool
}

type bank struct {
	mu     sync.Mutex
	orders map[string]*account
	open   map[string]map[[2]string]bool // of each shop, the orders that it is charging, and under which fence
	dead   map[string]bool
}

func (b *bank) account(order string) *account {
	if b.orders[order] == nil {
		b.orders[order] = &account{receipts: map[string]bool{}}
	}
	return b.orders[order]
}

// ServeHTTP hears what shops tell. What a shop told before it was killed may come late.
func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	shop, order := r.FormValue("shop"), r.FormValue("order")
	a, work := b.account(order), [2]string{order, r.FormValue("fence")}
	switch r.URL.Path {
	case "/charge":
		a.charges++
		if b.dead[shop] {
			a.crashes++
			return
		}
		if b.open[shop] == nil {
			b.open[shop] = map[[2]string]bool{}
		}
		b.open[shop][work] = true
		_, _ = fmt.Fprintf(w, "%s/%s/%d", order, shop, a.charges)
	case "/decline":
		a.declined++
	case "/lose":
		a.lost++
	case "/end":
		delete(b.open[shop], work)
	}
}

// bury counts what a shop that was killed was charging.
func (b *bank) bury(shop string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead[shop] = true
	for work := range b.open[shop] {
		b.account(work[0]).crashes++
	}
	delete(b.open, shop)
}

func (b *bank) receipt(order, receipt string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(order).receipts[receipt] = true
}

// branch is a shop as its clients and the test see it.
type branch struct {
	shop
	pid   string
	cmd   *exec.Cmd
	stdin io.Closer
}

func openBranch(t *testing.T, redisAddr, bankURL, mode string) *branch {
	t.Helper()
	b := &branch{cmd: exec.Command(os.Args[0], "-test.run=^TestShopProcess$", "-test.timeout=20m")}
	b.cmd.Env = append(os.Environ(), shopEnv+"="+strings.Join([]string{redisAddr, bankURL, mode}, ","))
	b.cmd.Stderr = os.Stderr
	var err error
	b.stdin, err = b.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := b.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, b.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var addr string
	_, err = fmt.Sscanf(line, "shop: %s %s", &b.pid, &addr)
	require.NoError(t, err, line)
	b.ClientConn, err = grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	return b
}

// kill ends a branch with SIGKILL.
func (b *branch) kill(bank *bank) {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	bank.bury(b.pid)
	_ = b.stdin.Close()
	_ = b.Close()
}

// street is the shops that are open, and what their clients do.
type street struct {
	bank     *bank
	branches [shops]atomic.Pointer[branch]
	calls    atomic.Int64
	timeouts atomic.Int64
}

// visit is one client: it wants an order charged, waits for some milliseconds, and asks again at another shop.
func (s *street) visit(ctx context.Context) {
	n := s.calls.Add(1) / callsPerOrder
	if rand.N(2) == 0 { // an order whose client may have given up a while ago
		n = max(n-rand.N[int64](100), 0)
	}
	order := strconv.FormatInt(n, 10)
	for range 4 {
		asks, cancel := context.WithTimeout(ctx, time.Millisecond+rand.N(20*time.Millisecond))
		receipt, err := s.branches[rand.N(shops)].Load().pay(asks, `order_id: "`+order+`"`)
		if err != nil && asks.Err() != nil {
			s.timeouts.Add(1)
		}
		cancel()
		if err == nil {
			s.bank.receipt(order, receipt)
			return
		}
	}
}

// At most once, an order is charged once, apart from charges that its shop took back. Else, it is charged once more
// after each crash in the middle, and never otherwise. Clients that get a receipt get the same.
func TestOnce_ShopsThatAreKilled(t *testing.T) {
	for _, mode := range []string{atMostOnce, "default"} {
		t.Run(mode, func(t *testing.T) {
			rdb := redistest.Start(t)
			s := &street{bank: &bank{orders: map[string]*account{}, open: map[string]map[[2]string]bool{}, dead: map[string]bool{}}}
			office := httptest.NewServer(s.bank)
			defer office.Close()
			for i := range s.branches {
				s.branches[i].Store(openBranch(t, rdb.Addr(), office.URL, mode))
			}
			ctx, stop := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			for range shopClients {
				clients.Go(func() {
					for ctx.Err() == nil {
						s.visit(ctx)
					}
				})
			}
			for killed := 0; killed < kills || s.timeouts.Load() < timeouts || !s.bank.hasSeen(mode); killed++ {
				s.branches[killed%shops].Swap(openBranch(t, rdb.Addr(), office.URL, mode)).kill(s.bank)
			}
			stop()
			clients.Wait()
			for i := range s.branches {
				s.branches[i].Load().kill(s.bank)
			}
			s.check(t, mode, rdb.Client(t))
		})
	}
}

// hasSeen returns whether the bank declined a charge, and, unless mode forbids it, an order was charged again after a
// crash.
func (b *bank) hasSeen(mode string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	declined, again := false, mode == atMostOnce
	for _, a := range b.orders {
		declined = declined || a.declined > 0
		again = again || a.charges > 1+a.declined
	}
	return declined && again
}

func (s *street) check(t *testing.T, mode string, rdb *redis.Client) {
	t.Helper()
	s.bank.mu.Lock()
	defer s.bank.mu.Unlock()
	charges, again, unknown := 0, 0, 0
	for order, a := range s.bank.orders {
		allowed := 1 + a.declined
		if mode != atMostOnce {
			allowed += a.crashes + a.lost
		}
		assert.LessOrEqual(t, a.charges, allowed, "%s: %+v", order, *a)
		assert.LessOrEqual(t, len(a.receipts), 1, "%s: %+v", order, *a)
		if strings.HasPrefix(rdb.Get(t.Context(), fmt.Sprintf("%s:{order:%s}:once", guard.DefaultPrefix, order)).Val(), "1 begun ") {
			unknown++
			assert.True(t, a.crashes+a.lost > 0 || a.charges == a.declined, "unknown without a crash: %s: %+v", order, *a)
		}
		charges += a.charges
		again += max(a.charges-1-a.declined, 0)
	}
	t.Logf("%d clients timed out; %d orders, %d charges, %d of them again, %d orders unknown", s.timeouts.Load(), len(s.bank.orders), charges, again, unknown)
	assert.Positive(t, charges)
}
