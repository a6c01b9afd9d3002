// Command web has two services on one server: accounts on net/http that concurrent withdrawals do not
// overdraw, and a box office on echo v5 that sells each seat once. It brings its own Redis:
//
//	go run ./examples/web
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
)

const addr = "localhost:8080"

func main() {
	server, err := embedded.Start() // yours is redis.NewClient(...)
	if err != nil {
		log.Fatal(err)
	}
	g, err := guard.New(server.Client())
	if err != nil {
		log.Fatal(err)
	}
	handler := routes(g, &bank{checkTakes: time.Second}, &office{paymentTakes: time.Second})
	srv := &http.Server{Addr: addr, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	fmt.Printf("Two withdrawals at once from an account with 100, and two buyers of one seat:\n"+
		"  curl -i -X POST '%[1]s/accounts/7/withdraw?amount=60' & curl -i -X POST '%[1]s/accounts/7/withdraw?amount=60'; wait\n"+
		"  curl -i -X POST %[1]s/shows/hamlet/seats/12 & curl -i -X POST %[1]s/shows/hamlet/seats/12; wait\n", addr)
	go func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		<-ctx.Done()
		_ = srv.Shutdown(context.Background())
	}()
	log.Print(srv.ListenAndServe())
	_ = g.Shutdown(context.Background()) // waits for the requests that run
	_ = server.Close()
}

func routes(g *guard.Guard, b *bank, o *office) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/accounts/", b.routes(g))
	mux.Handle("/shows/", o.routes(g))
	return mux
}
