package stack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// Requests to two frameworks, tasks and plain calls, by the Guards of three processes as
// far as Redis can tell, contend for three orders.
func TestOrders_OneAtATimeAcrossTheStack(t *testing.T) {
	const rounds = 5
	server, orders := redistest.Shared(t), []string{"1", "2", "3"}
	w := &witness{t, map[string]*int{"1": new(int), "2": new(int), "3": new(int)}}
	guardOn := func() *guard.Guard {
		g, err := guard.New(server.Client(t))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
		return g
	}
	baseURL, runTask, program := serveOrders(t, guardOn(), w), startTasks(t, server, guardOn(), w), guardOn()
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
	for _, order := range orders {
		assert.Equal(t, rounds*len(callers), *w.visits[order])
	}
}

// witness is the work that the locks guard. It counts visits under nothing but the lock of an order.
type witness struct {
	t      *testing.T
	visits map[string]*int
}

func (w *witness) visit(ctx context.Context, order string) error {
	_, ok := guard.Held(ctx, guard.Key("order:"+order))
	assert.True(w.t, ok, "without its lock")
	visits := *w.visits[order]
	time.Sleep(time.Millisecond) // the work: time for another to come in
	*w.visits[order] = visits + 1
	return nil
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
