package stack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v5"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/quorum"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

type tenantKey struct{}

// tenantOf returns what authentication found out.
func tenantOf(ctx context.Context) (string, bool) {
	tenant, ok := ctx.Value(tenantKey{}).(string)
	return tenant, ok
}

func tenantOrder(r *http.Request) (string, error) {
	tenant, ok := tenantOf(r.Context())
	if !ok {
		return "", errors.New("not signed in") // answered 500: authentication has let it pass
	}
	return guard.JoinKey("tenant", tenant, "order", r.PathValue("id")), nil
}

type badRequestError string

func (e badRequestError) Error() string  { return string(e) }
func (e badRequestError) Detail() string { return string(e) } // the client sees this
func (badRequestError) StatusCode() int  { return http.StatusBadRequest }

func order(r *http.Request) (string, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		return "", badRequestError("the order is not a number")
	}
	return guard.JoinKey("order", strconv.Itoa(id)), nil // 042 is 42
}

func customer(_ context.Context, t guardasynq.Task) (string, error) {
	var mail struct{ Customer string }
	if err := json.Unmarshal(t.Payload, &mail); err != nil || mail.Customer == "" {
		return "", fmt.Errorf("no customer: %w", asynq.SkipRetry)
	}
	return guard.JoinKey("customer", mail.Customer), nil
}

// newGuard stands for guard.New(rdb).
func newGuard() *guard.Guard {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	return g
}

// A key may be made by any function.
func Example_ownKey() {
	g := newGuard()
	defer g.Close()
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := guard.FromContext(r.Context())
		_, _ = fmt.Fprintln(w, "under", lease.Key())
	})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, guardhttp.LockFunc(tenantOrder))(pay))

	for _, ctx := range []context.Context{context.WithValue(context.Background(), tenantKey{}, "a:b"), context.Background()} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil).WithContext(ctx))
		fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	}
	fmt.Println(guard.JoinKey("tenant", "a:b", "order", "42"))
	// Output:
	// 200 text/plain; charset=utf-8
	// 500 application/problem+json
	// tenant:a%3Ab:order:42
}

// The error of a key function says what becomes of the request or the task.
func Example_noKey() {
	g := newGuard()
	defer g.Close()
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, guardhttp.LockFunc(order))(http.NotFoundHandler()))
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/x/pay", nil))
	fmt.Println(answer.Code)

	send := guardasynq.Middleware(g, guardasynq.LockFunc(customer))(asynq.NotFoundHandler())
	err := send.ProcessTask(context.Background(), asynq.NewTask("mail:send", []byte(`{}`)))
	fmt.Println(err, errors.Is(err, asynq.SkipRetry))
	// Output:
	// 400
	// guard: invalid lock key: key function failed: no customer: skip retry for the task true
}

func Example_echo() {
	g := newGuard()
	defer g.Close()
	show := func(c *echo.Context) error {
		lease, _ := guard.FromContext(c.Request().Context())
		return c.String(http.StatusOK, "under "+lease.Key())
	}
	e := echo.New()
	e.Use(guardecho.Annotate(g, guardecho.Routes{
		"POST /orders/:id/pay": guardecho.Lock("order:{id}"),
		"DELETE /orders/:id":   guardecho.Lock("order:{id}", guard.NoWait()),
	}))
	e.POST("/orders/:id/pay", show)
	e.DELETE("/orders/:id", show)

	answer := httptest.NewRecorder()
	e.ServeHTTP(answer, httptest.NewRequest(http.MethodDelete, "/orders/42", nil))
	fmt.Println(answer.Body)
	// Output: under order:42
}

// Locks on a majority of several servers, and locks of which a replica knows.
func Example_several() {
	a, b, c := newServer(), newServer(), newServer()
	defer a.Close()
	defer b.Close()
	defer c.Close()

	store, err := quorum.New([]redis.UniversalClient{a.Client(), b.Client(), c.Client()})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	g, err := guard.NewWithStore(store)
	if err != nil {
		panic(err)
	}
	defer g.Close()
	err = g.WithLock(context.Background(), guard.Key("order:42"), func(context.Context) error { return nil })
	fmt.Println(err)

	h, err := guard.New(a.Client(), guard.Replicas(1, 500*time.Millisecond))
	if err != nil {
		panic(err)
	}
	fmt.Println(h.Close())
	// Output:
	// <nil>
	// <nil>
}

func newServer() *embedded.Server {
	s, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	return s
}
