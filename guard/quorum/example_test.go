package quorum_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/quorum"
)

// A lock on three servers is held while two of them say so. One may be lost.
func Example() {
	var clients []redis.UniversalClient
	var servers []*embedded.Server
	for range 3 {
		server, err := embedded.Start() // stands for a Redis of yours
		if err != nil {
			panic(err)
		}
		defer server.Close()
		servers, clients = append(servers, server), append(clients, server.Client())
	}
	store, err := quorum.New(clients)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	g, err := guard.NewWithStore(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close() // before the store

	_ = servers[0].Close()
	fmt.Println(g.WithLock(context.Background(), guard.Keyf("order:%d", 42), func(context.Context) error {
		fmt.Println("held, with one server less")
		return nil
	}))
	// Output:
	// held, with one server less
	// <nil>
}
