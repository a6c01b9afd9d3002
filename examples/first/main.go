// Command first is the program of docs/start.md: three requests pay one order at the same time.
//
//	go run ./examples/first
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
)

func main() {
	server, err := embedded.Start() // an embedded Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	g, err := guard.New(server.Client()) // in production: redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	var requests sync.WaitGroup
	for range 3 {
		requests.Go(func() { fmt.Println(pay(context.Background(), g, "42")) })
	}
	requests.Wait()
}

func pay(ctx context.Context, g *guard.Guard, order string) string {
	// One caller charges. The others get its receipt.
	_, replayed, err := guard.Once(ctx, g, guard.Keyf("charge:%s", order), 24*time.Hour,
		func(ctx context.Context) (string, error) { return charge(ctx, order) },
		guard.Wait(2*time.Second))
	switch {
	case errors.Is(err, guard.ErrBusy):
		return "busy: try again"
	case errors.Is(err, guard.ErrLost):
		return "lost the lock: ask the bank"
	case err != nil: // Redis is down, or charge failed
		return err.Error()
	case replayed:
		return "already paid"
	}
	return "paid"
}

func charge(ctx context.Context, order string) (receipt string, err error) {
	// Call your bank here, with ctx and an idempotency key.
	return "receipt of order " + order, nil
}
