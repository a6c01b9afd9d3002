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
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
)

// The driver of Once: shops in processes of their own charge orders, and are killed at any moment. Their clients do not
// wait for long, and ask again at another shop. The Redis of the locks also counts what was charged.
const (
	shopEnv    = "REDLATCH_TEST_SHOP" // the process is a shop: "address of Redis,mode"
	atMostOnce = "at most once"       // a mode

	kills         = 24 // shops, in each mode
	shops         = 3
	shopClients   = 8
	callsPerOrder = 6
	shopTTL       = 300 * time.Millisecond
)

// TestShopProcess is a shop. In a normal run it does nothing.
func TestShopProcess(t *testing.T) {
	addr, mode, is := strings.Cut(os.Getenv(shopEnv), ",")
	if !is {
		t.Skip("it is a process of TestOnce_ShopsThatAreKilled")
	}
	g, err := guard.New(redis.NewClient(&redis.Options{Addr: addr}), guard.TTL(shopTTL))
	require.NoError(t, err)
	var once []guard.OnceOption
	if mode == atMostOnce {
		once = append(once, guard.AtMostOnce())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(guardgrpc.Unary(g, guardgrpc.Methods{pay: pays().Once(time.Hour, once...).SharedAnswer()})))
	server.RegisterService(&description, &service{pay: till{newBank(addr)}.pay})
	go func() { _ = server.Serve(listener) }()
	fmt.Println("shop:", listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is gone
	os.Exit(0)
}

// bank counts the charges of each order, and those that were taken back.
type bank struct{ *redis.Client }

// newBank has no timeout and no retry, which could count a charge twice.
func newBank(addr string) bank {
	return bank{redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: -1})}
}

// again returns how many orders were charged more than once, without the charges that were taken back, and whether any
// was taken back.
func (b bank) again(t *testing.T) (orders []string, anyBack bool) {
	t.Helper()
	charges, err := b.HGetAll(t.Context(), "charges").Result()
	require.NoError(t, err)
	back, err := b.HGetAll(t.Context(), "taken back").Result() // later than charges: what is charged meanwhile is no fault
	require.NoError(t, err)
	for order, charged := range charges {
		n, _ := strconv.Atoi(charged)
		m, _ := strconv.Atoi(back[order])
		if n > m+1 {
			orders = append(orders, order)
		}
	}
	return orders, len(back) > 0
}

// till is where a shop charges orders.
type till struct{ bank bank }

var errDeclined = errors.New("declined")

// pay charges an order, or, each eighth time, fails after it has taken that back. It is killed, and its client leaves,
// at any moment.
func (s till) pay(ctx context.Context, _ any) (any, error) {
	lease, _ := guard.FromContext(ctx)
	order := strings.TrimPrefix(lease.Key(), "order:")
	n, err := s.bank.HIncrBy(context.WithoutCancel(ctx), "charges", order, 1).Result()
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(rand.N(8 * time.Millisecond)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if rand.N(8) == 0 {
		return nil, errors.Join(errDeclined, s.bank.HIncrBy(context.WithoutCancel(ctx), "taken back", order, 1).Err())
	}
	return newResponse(fmt.Sprintf("%s/%d/%d", order, os.Getpid(), n)), nil
}

// branch is a shop as its clients and the test see it.
type branch struct {
	shop
	cmd   *exec.Cmd
	stdin io.Closer
}

func openBranch(t *testing.T, redisAddr, mode string) *branch {
	t.Helper()
	b := &branch{cmd: exec.Command(os.Args[0], "-test.run=^TestShopProcess$", "-test.timeout=20m")}
	b.cmd.Env = append(os.Environ(), shopEnv+"="+redisAddr+","+mode)
	b.cmd.Stderr = os.Stderr
	var err error
	b.stdin, err = b.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := b.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, b.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	addr := strings.TrimSpace(strings.TrimPrefix(line, "shop: "))
	b.ClientConn, err = grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err, line)
	return b
}

// kill ends a branch with SIGKILL.
func (b *branch) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	_ = b.stdin.Close()
	_ = b.Close()
}

// street is the shops that are open, and what their clients do.
type street struct {
	branches [shops]atomic.Pointer[branch]
	receipts sync.Map // the first receipt of each order
	calls    atomic.Int64
	refused  atomic.Int64 // calls for an order of unknown outcome
}

// visit is one client: it wants an order charged, waits for some milliseconds, and asks again at another shop.
func (s *street) visit(ctx context.Context, t *testing.T) {
	n := s.calls.Add(1) / callsPerOrder
	if rand.N(2) == 0 { // an order whose client may have given up a while ago
		n = max(n-rand.N[int64](100), 0)
	}
	order := strconv.FormatInt(n, 10)
	for range 4 {
		asks, cancel := context.WithTimeout(ctx, time.Millisecond+rand.N(20*time.Millisecond))
		receipt, err := s.branches[rand.N(shops)].Load().pay(asks, `order_id: "`+order+`"`)
		cancel()
		if status.Code(err) == codes.FailedPrecondition {
			s.refused.Add(1)
		}
		if err == nil {
			first, _ := s.receipts.LoadOrStore(order, receipt)
			assert.Equal(t, first, receipt)
			return
		}
	}
}

// At most once, an order is charged once, apart from charges that its shop took back. By default, a crash in the middle
// charges it again. Clients that get a receipt get the same in both modes.
func TestOnce_ShopsThatAreKilled(t *testing.T) {
	for _, mode := range []string{atMostOnce, "default"} {
		t.Run(mode, func(t *testing.T) {
			addr := redistest.Start(t).Addr()
			s, bank := new(street), newBank(addr)
			defer bank.Close()
			for i := range s.branches {
				s.branches[i].Store(openBranch(t, addr, mode))
			}
			ctx, stop := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			for range shopClients {
				clients.Go(func() {
					for ctx.Err() == nil {
						s.visit(ctx, t)
					}
				})
			}
			seen := false // whether charges were taken back, and a shop was killed in the middle of one that was asked for again
			for killed := 0; killed < kills || !seen; killed++ {
				s.branches[killed%shops].Swap(openBranch(t, addr, mode)).kill()
				again, anyBack := bank.again(t)
				seen = anyBack && (len(again) > 0 || s.refused.Load() > 0)
			}
			stop()
			clients.Wait()
			for i := range s.branches {
				s.branches[i].Load().kill()
			}
			again, _ := bank.again(t)
			t.Logf("%d clients, %d calls refused; orders charged again: %v", s.calls.Load(), s.refused.Load(), again)
			if mode == atMostOnce {
				assert.Empty(t, again)
			}
		})
	}
}
