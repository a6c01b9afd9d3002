package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
)

// A handler that locks in code: it passes ctx on, looks before the step that it cannot take back, and answers a loss
// as an open outcome.
func Example_lostLock() {
	g, store := exampleGuard(guard.TTL(100 * time.Millisecond))
	defer g.Close()
	reserve := func(ctx context.Context, order string) error {
		store.Drop("order:" + order) // as when Redis failed over and forgot the lock
		<-ctx.Done()
		return nil
	}

	pay := func(w http.ResponseWriter, r *http.Request) {
		order := r.URL.Query().Get("order")
		err := g.WithLock(r.Context(), guard.Keyf("order:%s", order), func(ctx context.Context) error {
			if err := reserve(ctx, order); err != nil { // give ctx to each call
				return err
			}
			if ctx.Err() != nil { // before a step that cannot be undone
				return context.Cause(ctx)
			}
			return charge(ctx, order)
		}, guard.Wait(2*time.Second))
		switch {
		case errors.Is(err, guard.ErrLost):
			http.Error(w, "the outcome is not known", http.StatusInternalServerError)
		case errors.Is(err, guard.ErrBusy):
			http.Error(w, "try again", http.StatusConflict)
		case err != nil:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	}

	answer := httptest.NewRecorder()
	pay(answer, httptest.NewRequest(http.MethodPost, "/pay?order=42", nil))
	fmt.Print(answer.Code, " ", answer.Body)
	// Output: 500 the outcome is not known
}

// On SIGTERM, first what brings work ends, then the Guard, then its client.
func ExampleGuard_Shutdown_server() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(rdb)
	if err != nil {
		panic(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second}

	stop, cancel := context.WithTimeout(context.Background(), 20*time.Second) // less than terminationGracePeriodSeconds
	defer cancel()
	_ = server.Shutdown(stop) // takes no new requests, and waits for those that run
	_ = g.Shutdown(stop)      // takes no new locks, and waits until all are released
	_ = rdb.Close()
	fmt.Println(g.WithLock(context.Background(), order, doesNotRun))
	// Output: guard: closed
}
