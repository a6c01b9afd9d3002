// A program with dependencies of its own, each of some years ago.
package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc"
)

var rdb = redis.NewClient(&redis.Options{Addr: "localhost:6379"})

func main() {
	_, err := pgx.Connect(context.Background(), "postgres://localhost")
	fmt.Println(err, echo.New(), otel.GetTracerProvider(), grpc.NewServer())
}
