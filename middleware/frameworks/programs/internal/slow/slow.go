// Package slow is what the programs have in common: a Guard, a listener that the test finds, and
// work that goes on whatever becomes of its lock, until the test says that it is done.
package slow

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
)

// Guard is one on the Redis that the environment names.
func Guard() *guard.Guard {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	g, err := guard.New(redis.NewClient(options), guard.TTL(3*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	return g
}

// Listen listens on a free port, and prints which.
func Listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	return listener
}

var lines = bufio.NewReader(os.Stdin)

// Work prints which key it is under, and when it has lost it. It returns when a line comes on
// standard input, and not because of ctx.
func Work(ctx context.Context) {
	lease, _ := guard.FromContext(ctx)
	fmt.Println(lease.Key())
	defer context.AfterFunc(ctx, func() { fmt.Println("lost") })()
	_, _ = lines.ReadString('\n')
}
