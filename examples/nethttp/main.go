// Command nethttp is a bank on net/http whose accounts nobody can overdraw by asking
// twice at the same time. It brings its own Redis:
//
//	go run ./examples/nethttp
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
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
	srv := &http.Server{Addr: addr, Handler: routes(g, &bank{checkTakes: time.Second}), ReadHeaderTimeout: 5 * time.Second}
	fmt.Printf("Two withdrawals at once, of an account with 100:\n"+
		"  curl -i -X POST '%[1]s/accounts/7/withdraw?amount=60' & curl -i -X POST '%[1]s/accounts/7/withdraw?amount=60'; wait\n", addr)
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

// routes has all there is of redlatch in the service. It works around any http.Handler.
func routes(g *guard.Guard, b *bank) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /accounts/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, opening-b.spentBy(r.PathValue("id")))
	})
	mux.HandleFunc("POST /accounts/{id}/withdraw", b.withdraw)
	return guardhttp.Annotate(g, mux, guardhttp.Routes{
		"POST /accounts/{id}/withdraw": guardhttp.Lock("account:{id}"), // waits for its turn, for 2 seconds
	})
}

const opening = 100

// bank stands for a database. It knows nothing of what goes on between two calls.
type bank struct {
	checkTakes time.Duration
	spent      sync.Map // by account
}

func (b *bank) spentBy(id string) int {
	spent, _ := b.spent.LoadOrStore(id, 0)
	return spent.(int)
}

// withdraw checks, and then acts. What makes that safe is the lock of the route.
func (b *bank) withdraw(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	amount, err := strconv.Atoi(r.FormValue("amount"))
	spent := b.spentBy(id) + amount
	if err != nil || amount <= 0 || spent > opening {
		http.Error(w, "no", http.StatusPaymentRequired)
		return
	}
	select {
	case <-time.After(b.checkTakes): // does somebody launder money?
		b.spent.Store(id, spent)
	case <-r.Context().Done(): // the client has left, or the lock is lost
	}
}
