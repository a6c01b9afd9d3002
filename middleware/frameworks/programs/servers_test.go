package programs_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v5"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/redlatch/redlatch/guard"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
	guardgin "github.com/redlatch/redlatch/middleware/gin"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func serveChi(g *guard.Guard, listener net.Listener) error {
	order := guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))
	r := chi.NewRouter()
	r.With(order).Post("/orders/{id}/pay", func(w http.ResponseWriter, r *http.Request) {
		work(r.Context())
		_, _ = w.Write([]byte("paid"))
	})
	return http.Serve(listener, r) //nolint:gosec // a test's server needs no timeouts
}

func serveEcho(g *guard.Guard, listener net.Listener) error {
	e := echo.New()
	e.POST("/orders/:id/pay", func(c *echo.Context) error {
		work(c.Request().Context())
		return c.JSON(http.StatusOK, map[string]bool{"paid": true})
	}, guardecho.Middleware(g, guardecho.Lock("order:{id}")))
	return http.Serve(listener, e) //nolint:gosec // a test's server needs no timeouts
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
