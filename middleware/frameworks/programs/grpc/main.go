// Command grpc has its orders checked by gRPC. The service is one that comes with grpc-go, so that
// nothing is to be generated.
package main

import (
	"context"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/redlatch/redlatch/middleware/frameworks/programs/internal/slow"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
)

type health struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (health) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	slow.Work(ctx)
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func main() {
	methods := guardgrpc.Methods{grpc_health_v1.Health_Check_FullMethodName: guardgrpc.Lock("order:{service}")}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(guardgrpc.Unary(slow.Guard(), methods)))
	grpc_health_v1.RegisterHealthServer(server, health{})
	if err := guardgrpc.Check(server.GetServiceInfo(), methods); err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(slow.Listen()))
}
