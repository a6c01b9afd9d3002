package embedded_test

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
)

// A program that runs where there is no Redis, such as a demonstration.
func ExampleStart() {
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	g, err := guard.New(server.Client())
	if err != nil {
		panic(err)
	}
	defer g.Close()
	fmt.Println(g.Ping(context.Background()))
	// Output: <nil>
}
