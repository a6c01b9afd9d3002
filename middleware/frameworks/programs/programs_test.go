// Package programs_test has one small program for each kind of server. The handlers ignore their
// context. The test deletes the key while they work: what their clients get is never a success.
package programs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
	guardgin "github.com/redlatch/redlatch/middleware/gin"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// programEnv makes the test binary the program that it names.
const programEnv = "PROGRAMS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(programEnv); name != "" {
		serve(programs[name].serve)
	}
	os.Exit(redistest.Run(m))
}

var programs = map[string]struct {
	serve      func(*guard.Guard, net.Listener) error
	call       func(t *testing.T, addr, order string) (answer string)
	done, lost string
}{
	"gin":  {serveGin, overHTTP, "200 OK", "500 Internal Server Error lock_lost"},
	"chi":  {serveChi, overHTTP, "200 OK", "500 Internal Server Error lock_lost"},
	"echo": {serveEcho, overHTTP, "200 OK", "500 Internal Server Error lock_lost"},
	"grpc": {serveGRPC, overGRPC, codes.OK.String(), codes.Unknown.String()},
}

// A handler ignores its context, and its key is deleted in Redis meanwhile.
func TestPrograms_AProgramWhoseKeyIsDeletedAnswersNoSuccess(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	rdb := server.Client(t)
	for name, row := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, name, server.URL())
			addr := p.line(t)
			for order, want := range map[string]string{name + "-kept": row.done, name + "-lost": row.lost} {
				answered := make(chan string, 1)
				go func() { answered <- row.call(t, addr, order) }()
				key := p.line(t)
				assert.Equal(t, "order:"+order, key)
				if want == row.lost {
					assert.EqualValues(t, 1, rdb.Del(t.Context(), "redlatch:{"+key+"}").Val())
					assert.Equal(t, "lost", p.line(t))
				}
				_, err := io.WriteString(p.in, "\n")
				require.NoError(t, err)
				assert.Equal(t, want, <-answered)
			}
		})
	}
}

// program is one that runs.
type program struct {
	in  io.Writer
	out *bufio.Reader
}

func start(t *testing.T, name, redis string) *program {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = append(os.Environ(), programEnv+"="+name, "REDIS_URL="+redis)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		end()
		_ = cmd.Wait()
	})
	return &program{in, bufio.NewReader(out)}
}

// line is the next that the program prints.
func (p *program) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

func overHTTP(t *testing.T, addr, order string) string {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/orders/"+order+"/pay", http.NoBody)
	if !assert.NoError(t, err) {
		return ""
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if !assert.NoError(t, err) {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	assert.NoError(t, err)
	if strings.Contains(string(body), `"code":"lock_lost"`) {
		return res.Status + " lock_lost"
	}
	return res.Status
}

func overGRPC(t *testing.T, addr, order string) string {
	client, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if !assert.NoError(t, err) {
		return ""
	}
	defer func() { _ = client.Close() }()
	_, err = grpc_health_v1.NewHealthClient(client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: order})
	return status.Code(err).String()
}

func serveChi(g *guard.Guard, listener net.Listener) error {
	order := guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))
	r := chi.NewRouter()
	r.With(order).Post("/orders/{id}/pay", func(w http.ResponseWriter, r *http.Request) {
		work(r.Context())
		_, _ = w.Write([]byte("paid"))
	})
	return http.Serve(listener, r)
}

func serveEcho(g *guard.Guard, listener net.Listener) error {
	e := echo.New()
	e.POST("/orders/:id/pay", func(c *echo.Context) error {
		work(c.Request().Context())
		return c.JSON(http.StatusOK, map[string]bool{"paid": true})
	}, guardecho.Middleware(g, guardecho.Lock("order:{id}")))
	return http.Serve(listener, e)
}

func serveGin(g *guard.Guard, listener net.Listener) error {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.POST("/orders/:id/pay", guardgin.Middleware(g, guardgin.Lock("order:{id}")), func(c *gin.Context) {
		work(c.Request.Context())
		c.JSON(http.StatusOK, gin.H{"paid": true})
	})
	return engine.RunListener(listener)
}

// health is a service that comes with grpc-go, so that no code is generated.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (health) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	work(ctx)
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func serveGRPC(g *guard.Guard, listener net.Listener) error {
	methods := guardgrpc.Methods{grpc_health_v1.Health_Check_FullMethodName: guardgrpc.Lock("order:{service}")}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(guardgrpc.Unary(g, methods)))
	grpc_health_v1.RegisterHealthServer(server, health{})
	if err := guardgrpc.Check(server.GetServiceInfo(), methods); err != nil {
		return err
	}
	return server.Serve(listener)
}

// serve runs the program on a free port, which it prints first.
func serve(program func(*guard.Guard, net.Listener) error) {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	g, err := guard.New(redis.NewClient(options), guard.TTL(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(program(g, listener))
}

var lines = bufio.NewReader(os.Stdin)

// work prints its key, and prints "lost" when it has lost the lock. It ignores ctx, and returns
// when a line comes on standard input.
func work(ctx context.Context) {
	lease, _ := guard.FromContext(ctx)
	fmt.Println(lease.Key())
	defer context.AfterFunc(ctx, func() { fmt.Println("lost") })()
	_, _ = lines.ReadString('\n')
}
