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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// The driver of Once: shops in processes of their own charge orders over HTTP and gRPC, and are killed at any moment.
// Their clients do not wait for long, and ask again at another shop. What was charged is known to a bank, which is in
// the process of the test.
const (
	shopRedisEnv = "REDLATCH_TEST_SHOP_REDIS" // the address of Redis; the process is a shop
	shopBankEnv  = "REDLATCH_TEST_SHOP_BANK"  // the URL of the bank
	shopModeEnv  = "REDLATCH_TEST_SHOP_MODE"  // "at most once", or the default
	killsEnv     = "REDLATCH_TEST_KILLS"      // how many shops are killed in each mode
	timeoutsEnv  = "REDLATCH_TEST_TIMEOUTS"   // how many clients time out in each mode at least

	shops         = 3
	shopClients   = 8
	callsPerOrder = 6
	shopTTL       = time.Second
	shopTenant    = "acme"
)

// TestShopProcess is a shop. In a normal run it does nothing.
func TestShopProcess(t *testing.T) {
	addr := os.Getenv(shopRedisEnv)
	if addr == "" {
		t.Skip("it is a process of TestOnce_ShopsThatAreKilled")
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	till := &till{bank: os.Getenv(shopBankEnv), shop: strconv.Itoa(os.Getpid())}
	g, err := guard.New(client, guard.TTL(shopTTL), guard.Observe(till))
	require.NoError(t, err)
	var once []guard.OnceOption
	if os.Getenv(shopModeEnv) == "at most once" {
		once = append(once, guard.AtMostOnce())
	}
	overHTTP, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	overGRPC, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	rule := guardhttp.Lock("pay:{header:X-Tenant}:{idempotency-key}").Once(time.Hour, once...)
	go func() { _ = http.Serve(overHTTP, guardhttp.Middleware(g, rule)(till)) }()
	server := grpc.NewServer(grpc.UnaryInterceptor(guardgrpc.Unary(g, guardgrpc.Methods{
		pay: guardgrpc.Lock("pay:{metadata:x-tenant}:{metadata:idempotency-key}").Once(time.Hour, once...),
	})))
	server.RegisterService(&description, &service{pay: till.pay})
	go func() { _ = server.Serve(overGRPC) }()
	fmt.Println("shop:", till.shop, overHTTP.Addr(), overGRPC.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is gone
	os.Exit(0)
}

// till is where a shop charges orders: its handler of both protocols, and an Observer.
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

// charge charges an order, or, each eighth time, fails after it has taken that back. It is killed, and its client
// leaves, at any moment.
func (s *till) charge(ctx context.Context, order string) (receipt string, err error) {
	fence, _ := guard.Fence(ctx)
	if receipt, err = s.tell("charge", order, fence); err != nil {
		return "", err
	}
	select {
	case <-time.After(rand.N(8 * time.Millisecond)):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if rand.N(8) == 0 {
		_, err = s.tell("decline", order, fence)
		return "", errors.Join(errDeclined, err)
	}
	return receipt, nil
}

func (s *till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	receipt, err := s.charge(r.Context(), r.Header.Get("Idempotency-Key"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, receipt)
}

func (s *till) pay(ctx context.Context, _ any) (any, error) {
	received, _ := metadata.FromIncomingContext(ctx)
	receipt, err := s.charge(ctx, received.Get("idempotency-key")[0])
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return newResponse(receipt), nil
}

func orderOf(l guard.Lock) string { return l.Key[strings.LastIndex(l.Key, ":")+1:] }

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
	pid, url string
	conn     *grpc.ClientConn
	cmd      *exec.Cmd
	stdin    io.Closer
}

func openBranch(t *testing.T, redisAddr, bankURL, mode string) *branch {
	t.Helper()
	b := &branch{cmd: exec.Command(os.Args[0], "-test.run=^TestShopProcess$", "-test.timeout=20m")}
	b.cmd.Env = append(os.Environ(), shopRedisEnv+"="+redisAddr, shopBankEnv+"="+bankURL, shopModeEnv+"="+mode)
	b.cmd.Stderr = os.Stderr
	var err error
	b.stdin, err = b.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := b.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, b.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var overHTTP, overGRPC string
	_, err = fmt.Sscanf(line, "shop: %s %s %s", &b.pid, &overHTTP, &overGRPC)
	require.NoError(t, err, line)
	b.url = "http://" + overHTTP + "/pay"
	b.conn, err = grpc.NewClient(overGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	return b
}

// kill ends a branch with SIGKILL.
func (b *branch) kill(bank *bank) {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	bank.bury(b.pid)
	_ = b.stdin.Close()
	_ = b.conn.Close()
}

// overHTTP and overGRPC ask a branch to charge an order.
func (b *branch) overHTTP(ctx context.Context, client *http.Client, order string) (receipt string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, http.NoBody)
	if err != nil {
		return "", err
	}
	r.Header.Set("X-Tenant", shopTenant)
	r.Header.Set("Idempotency-Key", order)
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(text), err
}

func (b *branch) overGRPC(ctx context.Context, order string) (receipt string, err error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "x-tenant", shopTenant, "idempotency-key", order)
	return (&shop{ClientConn: b.conn}).pay(ctx, `order_id: "`+order+`"`)
}

// street is the shops that are open, and what their clients do.
type street struct {
	bank     *bank
	branches [shops]atomic.Pointer[branch]
	calls    atomic.Int64
	timeouts atomic.Int64
}

// visit is one client: it wants an order charged, waits for some milliseconds, and asks again at another shop.
func (s *street) visit(ctx context.Context, client *http.Client) {
	n := s.calls.Add(1) / callsPerOrder
	if rand.N(2) == 0 { // an order whose client may have given up a while ago
		n = max(n-rand.N[int64](100), 0)
	}
	order := fmt.Sprint("order", n)
	for range 4 {
		to := s.branches[rand.N(shops)].Load()
		asks, cancel := context.WithTimeout(ctx, time.Millisecond+rand.N(20*time.Millisecond))
		var receipt string
		var err error
		if n%2 == 0 {
			receipt, err = to.overHTTP(asks, client, order)
		} else {
			receipt, err = to.overGRPC(asks, order)
		}
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

func atLeast(t *testing.T, env string, usual int) int {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, env)
	return n
}

// At most once, an order is charged once, apart from charges that its shop took back. Else, it is charged once more
// after each crash in the middle, and never otherwise. Clients that get a receipt get the same.
func TestOnce_ShopsThatAreKilled(t *testing.T) {
	kills, timeouts := atLeast(t, killsEnv, 12), atLeast(t, timeoutsEnv, 100)
	for _, mode := range []string{"at most once", "default"} {
		t.Run(mode, func(t *testing.T) {
			rdb := redistest.Start(t)
			s := &street{bank: &bank{orders: map[string]*account{}, open: map[string]map[[2]string]bool{}, dead: map[string]bool{}}}
			office := httptest.NewServer(s.bank)
			defer office.Close()
			for i := range s.branches {
				s.branches[i].Store(openBranch(t, rdb.Addr(), office.URL, mode))
			}
			ctx, stop := context.WithCancel(t.Context())
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: shopClients}}
			var clients sync.WaitGroup
			for range shopClients {
				clients.Go(func() {
					for ctx.Err() == nil {
						s.visit(ctx, client)
					}
				})
			}
			killed := 0
			for ; killed < kills || s.timeouts.Load() < int64(timeouts) || !s.bank.hasDeclined(); killed++ {
				next, at := openBranch(t, rdb.Addr(), office.URL, mode), killed%shops
				s.branches[at].Swap(next).kill(s.bank)
			}
			stop()
			clients.Wait()
			for i := range s.branches {
				s.branches[i].Load().kill(s.bank)
			}
			client.CloseIdleConnections()
			s.check(t, mode, killed+shops, rdb.Client(t))
		})
	}
}

// hasDeclined returns whether the bank declined a charge.
func (b *bank) hasDeclined() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.orders {
		if a.declined > 0 {
			return true
		}
	}
	return false
}

func (s *street) check(t *testing.T, mode string, killed int, rdb *redis.Client) {
	t.Helper()
	s.bank.mu.Lock()
	defer s.bank.mu.Unlock()
	var sum account
	again, unknown := 0, 0
	for order, a := range s.bank.orders {
		allowed := 1 + a.declined
		if mode == "default" {
			allowed += a.crashes + a.lost
		}
		assert.LessOrEqual(t, a.charges, allowed, "%s: %+v", order, *a)
		assert.LessOrEqual(t, len(a.receipts), 1, "%s: %+v", order, *a)
		again += max(a.charges-1-a.declined, 0)
		sum.charges, sum.declined, sum.crashes, sum.lost = sum.charges+a.charges, sum.declined+a.declined, sum.crashes+a.crashes, sum.lost+a.lost
		if strings.HasPrefix(rdb.Get(t.Context(), fmt.Sprintf("%s:{pay:%s:%s}:once", guard.DefaultPrefix, shopTenant, order)).Val(), "1 begun ") {
			unknown++
			assert.True(t, a.crashes+a.lost > 0 || a.charges == a.declined, "unknown without a crash: %s: %+v", order, *a)
		}
	}
	t.Logf("%d shops killed, %d clients timed out; %d orders, %d charges, %d taken back, %d crashes in the middle, %d charges again, %d orders unknown, %d locks lost",
		killed, s.timeouts.Load(), len(s.bank.orders), sum.charges, sum.declined, sum.crashes, again, unknown, sum.lost)
	assert.Positive(t, sum.charges)
	assert.Positive(t, sum.declined)
}
