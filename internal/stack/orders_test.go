package stack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func guardOn(t *testing.T, server *redistest.Server, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(server.Client(t), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// Requests to two frameworks, tasks and plain calls, by the Guards of three processes as
// far as Redis can tell, contend for three orders.
func TestOrders_OneAtATimeAcrossTheStack(t *testing.T) {
	const rounds = 5
	server := redistest.Start(t)
	rdb, orders := server.Client(t), []string{"1", "2", "3"}
	w := newWitness(t, rdb, orders)
	baseURL := serveOrders(t, guardOn(t, server), w)
	runTask := startTasks(t, server, guardOn(t, server), w)
	program := guardOn(t, server)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)

	callers := []func(order string) error{
		func(order string) error { return post(t, baseURL+"/orders/"+order+"/pay") },
		func(order string) error { return post(t, baseURL+"/admin/orders/"+order+"/settle") },
		runTask,
		func(order string) error {
			return program.WithLock(t.Context(), guard.Keyf("order:%s", order), func(ctx context.Context) error {
				return w.visit(ctx, order)
			})
		},
	}
	var all sync.WaitGroup
	for range rounds {
		for _, order := range orders {
			for _, call := range callers {
				all.Go(func() { assert.NoError(t, call(order)) })
			}
		}
	}
	all.Wait()
	w.check(rounds * len(callers))
	requireNoLocksLeft(t, rdb)
}

// requireNoLocksLeft finds nothing of a lock but what is kept for the next one: the last
// fence, and the tombstones of claims. The name of an instance is of no lock, and has a ttl.
func requireNoLocksLeft(t *testing.T, rdb *redis.Client) {
	t.Helper()
	lockKeys := func() []string {
		keys, err := rdb.Keys(t.Context(), "guard:*").Result()
		require.NoError(t, err)
		return slices.DeleteFunc(keys, func(key string) bool {
			if strings.HasSuffix(key, ":queue") {
				waiting, err := rdb.ZCount(t.Context(), key, "0", "+inf").Result()
				return err == nil && waiting == 0
			}
			return strings.HasSuffix(key, ":last") || strings.HasPrefix(key, "guard:instance:")
		})
	}
	require.Eventually(t, func() bool { return len(lockKeys()) == 0 }, 15*time.Second, 10*time.Millisecond)
}

// witness is the work that the locks guard. It notices if two do it for one order at a
// time: by who is inside, by counts that are read and then written, here and in Redis,
// and by the fences.
type witness struct {
	t      *testing.T
	rdb    *redis.Client
	orders map[string]*record
}

type record struct {
	inside atomic.Bool
	visits atomic.Int64

	mu     sync.Mutex // protects fences, for the race detector: it knows no lock in Redis
	fences []uint64
}

func newWitness(t *testing.T, rdb *redis.Client, orders []string) *witness {
	w := &witness{t: t, rdb: rdb, orders: make(map[string]*record)}
	for _, order := range orders {
		w.orders[order] = new(record)
	}
	return w
}

func (w *witness) visit(ctx context.Context, order string) error {
	r := w.orders[order]
	assert.Truef(w.t, r.inside.CompareAndSwap(false, true), "two inside for order %s", order)
	defer r.inside.Store(false)
	lease, ok := guard.Held(ctx, "order:"+order)
	if !ok {
		w.t.Errorf("order %s is visited without its lock", order)
		return nil
	}
	r.mu.Lock()
	r.fences = append(r.fences, lease.Fence())
	r.mu.Unlock()

	visits := r.visits.Load()
	seen, err := w.rdb.Get(ctx, "witness:"+order).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	time.Sleep(time.Millisecond) // the work: time for another to come in
	if err := w.rdb.Set(ctx, "witness:"+order, seen+1, 0).Err(); err != nil {
		return err
	}
	r.visits.Store(visits + 1)
	return nil
}

// check says whether each order was visited as often as it should, one at a time.
func (w *witness) check(visits int) {
	for order, r := range w.orders {
		seen, err := w.rdb.Get(w.t.Context(), "witness:"+order).Int()
		assert.NoError(w.t, err)
		assert.Equalf(w.t, visits, seen, "visits of order %s, counted in Redis", order)
		assert.EqualValuesf(w.t, visits, r.visits.Load(), "visits of order %s", order)
		assert.Lenf(w.t, r.fences, visits, "fences of order %s", order)
		assert.IsIncreasingf(w.t, r.fences, "fences of order %s", order)
	}
}

// serveOrders has an echo route and a net/http route for the same orders.
func serveOrders(t *testing.T, g *guard.Guard, w *witness) (baseURL string) {
	t.Helper()
	e := echo.New()
	e.POST("/orders/:id/pay", func(c echo.Context) error {
		return w.visit(c.Request().Context(), c.Param("id"))
	}, guardecho.Middleware(g, guardecho.Lock("order:{id}")))

	mux := http.NewServeMux()
	lock := guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))
	mux.Handle("POST /admin/orders/{id}/settle", lock(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := w.visit(r.Context(), r.PathValue("id")); err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
		}
	})))
	mux.Handle("/", e)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// startTasks has tasks for the same orders, and returns a function that enqueues one
// and waits for its end.
func startTasks(t *testing.T, server *redistest.Server, g *guard.Guard, w *witness) (run func(order string) error) {
	t.Helper()
	rdb := server.Client(t)
	var ended sync.Map // task id → chan struct{}
	mux := asynq.NewServeMux()
	mux.Use(guardasynq.Middleware(g, guardasynq.Lock("order:{order_id}")))
	mux.HandleFunc("order:charge", func(ctx context.Context, task *asynq.Task) error {
		var payload struct {
			OrderID string `json:"order_id"`
		}
		if err := json.Unmarshal(task.Payload(), &payload); err != nil {
			return err
		}
		err := w.visit(ctx, payload.OrderID)
		id, _ := asynq.GetTaskID(ctx)
		if end, ok := ended.Load(id); ok && err == nil {
			close(end.(chan struct{}))
		}
		return err
	})
	worker := asynq.NewServerFromRedisClient(rdb, guardasynq.Configure(asynq.Config{
		Concurrency: 8, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 100 * time.Millisecond,
	}))
	require.NoError(t, worker.Start(mux))
	t.Cleanup(worker.Shutdown)

	client, ids := asynq.NewClientFromRedisClient(rdb), new(atomic.Int64)
	return func(order string) error {
		id, end := strconv.FormatInt(ids.Add(1), 10), make(chan struct{})
		ended.Store(id, end)
		task := asynq.NewTask("order:charge", fmt.Appendf(nil, `{"order_id":%q}`, order))
		if _, err := client.EnqueueContext(t.Context(), task, asynq.TaskID(id)); err != nil {
			return err
		}
		select {
		case <-end:
			return nil
		case <-time.After(time.Minute):
			return errors.New("the task does not end")
		}
	}
}

// post asks until the order is not busy. The server has waited for it each time.
func post(t *testing.T, url string) error {
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case err != nil:
			return err
		case resp.StatusCode == http.StatusOK:
			return nil
		case resp.StatusCode != http.StatusConflict:
			return fmt.Errorf("%s: %s", resp.Status, body)
		}
	}
}
