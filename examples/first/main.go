// Command first is the program of the README: three requests pay one order at the same time.
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
	"github.com/redlatch/redlatch/guard/guardtest"
)

func main() {
	server, err := guardtest.Start() // an embedded Redis, to try it without a server
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

var paid = map[string]bool{} // stands for your database

func pay(ctx context.Context, g *guard.Guard, order string) string {
	answer := "already paid" // the lock remembers nothing: the work must check
	err := g.WithLock(ctx, guard.Keyf("order:%s", order), func(ctx context.Context) error {
		// Only one caller works on this order, in all your processes. If the lock is lost, ctx ends.
		if paid[order] {
			return nil
		}
		answer = "paid"
		return charge(ctx, order)
	}, guard.Wait(2*time.Second))
	switch {
	case errors.Is(err, guard.ErrBusy):
		return "somebody else works on this order: try again"
	case errors.Is(err, guard.ErrLost):
		return "the lock was lost under the work: look at what was done"
	case err != nil: // Redis is down, or charge failed
		return err.Error()
	}
	return answer
}

func charge(ctx context.Context, order string) error {
	paid[order] = true
	return context.Cause(ctx) // not nil if the lock was lost meanwhile
}
