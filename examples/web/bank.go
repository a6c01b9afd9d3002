package main

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

const opening = 100

// bank stands for a database without transactions.
type bank struct {
	checkTakes time.Duration
	spent      sync.Map // by account
}

// routes locks the account of a withdrawal: Annotate goes around any http.Handler.
func (b *bank) routes(g *guard.Guard) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /accounts/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, opening-b.spentBy(r.PathValue("id")))
	})
	mux.HandleFunc("POST /accounts/{id}/withdraw", b.withdraw)
	return guardhttp.Annotate(g, mux, guardhttp.Routes{
		"POST /accounts/{id}/withdraw": guardhttp.Lock("account:{id}"), // waits for its turn, for 2 seconds
	})
}

func (b *bank) spentBy(id string) int {
	spent, _ := b.spent.LoadOrStore(id, 0)
	return spent.(int)
}

// withdraw reads and then writes. The lock of the route makes that safe.
func (b *bank) withdraw(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	amount, err := strconv.Atoi(r.FormValue("amount"))
	spent := b.spentBy(id) + amount
	if err != nil || amount <= 0 || spent > opening {
		http.Error(w, "no", http.StatusPaymentRequired)
		return
	}
	select {
	case <-time.After(b.checkTakes): // a call of another service
		b.spent.Store(id, spent)
	case <-r.Context().Done(): // the client has left, or the lock is lost
	}
}
