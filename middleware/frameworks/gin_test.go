package frameworks_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// annotated is an engine behind Annotate, on a store that can lose locks.
type annotated struct {
	store  *guardtest.Store
	engine *gin.Engine
	server *httptest.Server
	logged strings.Builder
}

func newAnnotated(t *testing.T, work func(c *gin.Context, lose func())) *annotated {
	t.Helper()
	a := &annotated{store: guardtest.NewStore(), engine: gin.New()}
	g, err := guard.NewWithStore(a.store, guard.TTL(guard.MinTTL))
	require.NoError(t, err)
	a.engine.POST("/orders/:id/pay", func(c *gin.Context) {
		work(c, func() { a.store.Drop("order:7"); <-c.Request.Context().Done() })
	})
	a.server = httptest.NewUnstartedServer(guardhttp.Annotate(g, a.engine, guardhttp.Routes{
		"POST /orders/{id}/pay": guardhttp.Lock("order:{id}"),
	}))
	a.server.Config.ErrorLog = log.New(&a.logged, "", 0)
	a.server.Start()
	t.Cleanup(func() {
		a.server.Close()
		assert.NoError(t, g.Close())
		assert.Empty(t, a.logged.String(), "by the server")
	})
	return a
}

func (a *annotated) pay(t *testing.T) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.server.URL+"/orders/7/pay", nil)
	require.NoError(t, err)
	res, err := a.server.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

// Gin sets the status by itself when its handlers are done.
func TestLostLockBehindAnnotate(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		work   func(c *gin.Context, lose func())
		status int
		body   string
	}{
		"the handler returns":       {func(_ *gin.Context, lose func()) { lose() }, 500, "lock_lost"},
		"a status":                  {func(c *gin.Context, lose func()) { c.Status(204); lose() }, 500, "lock_lost"},
		"a status, written":         {func(c *gin.Context, lose func()) { c.Status(204); c.Writer.WriteHeaderNow(); lose() }, 500, "lock_lost"},
		"an answer behind the loss": {func(c *gin.Context, lose func()) { lose(); c.JSON(200, "late") }, 500, "lock_lost"},
		"an error behind the loss":  {func(c *gin.Context, lose func()) { lose(); c.AbortWithStatus(503) }, 503, ""},
		"an answer before the loss": {func(c *gin.Context, lose func()) { c.String(200, "in time"); lose() }, 200, "in time"},
		"no loss":                   {func(c *gin.Context, _ func()) { c.String(201, "in time") }, 201, "in time"},
		"a stream": {func(c *gin.Context, lose func()) {
			parts := 0
			c.Stream(func(w io.Writer) bool {
				_, _ = io.WriteString(w, "part ")
				parts++
				return parts < 3
			})
			lose()
		}, 200, "part part part "},
		"a stream behind the loss": {func(c *gin.Context, lose func()) {
			lose()
			c.Stream(func(w io.Writer) bool {
				_, err := io.WriteString(w, "late")
				assert.ErrorIs(t, err, guard.ErrLost)
				return false
			})
		}, 500, "lock_lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := newAnnotated(t, row.work).pay(t)
			assert.Equal(t, row.status, status)
			if row.body == "lock_lost" {
				assert.Contains(t, body, `"code":"lock_lost"`)
			} else {
				assert.Equal(t, row.body, body)
			}
		})
	}
}

// What gin asserts of a writer is there behind Annotate, too.
func TestWriterBehindAnnotate(t *testing.T) {
	t.Parallel()
	a := newAnnotated(t, func(c *gin.Context, _ func()) {
		gone := c.Writer.CloseNotify()
		select {
		case <-gone:
			assert.Fail(t, "the client is there")
		default:
		}
		conn, _, err := c.Writer.Hijack()
		if assert.NoError(t, err) {
			_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
			_ = conn.Close()
		}
	})
	status, body := a.pay(t)
	assert.Equal(t, http.StatusAccepted, status)
	assert.Equal(t, "hi", body)
}

func TestBusyLockBehindAnnotate(t *testing.T) {
	t.Parallel()
	a := newAnnotated(t, func(*gin.Context, func()) { assert.Fail(t, "ran") })
	other, err := guard.NewWithStore(a.store)
	require.NoError(t, err)
	defer func() { assert.NoError(t, other.Close()) }()
	lease, err := other.Acquire(t.Context(), guard.Key("order:7"))
	require.NoError(t, err)
	defer func() { _ = lease.Release(context.Background()) }()
	status, body := a.pay(t)
	assert.Equal(t, http.StatusConflict, status)
	assert.Contains(t, body, `"code":"lock_wait_timeout"`)
}

// The middleware of the example, in all that can happen to it.
func TestMiddlewareByHand(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		busy   bool
		work   func(c *gin.Context, lose func())
		status int
		body   string
	}{
		"ok":                       {false, func(c *gin.Context, _ func()) { c.String(201, "paid") }, 201, "paid"},
		"ok, a status":             {false, func(c *gin.Context, _ func()) { c.Status(204) }, 204, ""},
		"busy":                     {true, func(*gin.Context, func()) { t.Error("ran") }, 409, "lock_wait_timeout"},
		"lost before writing":      {false, func(_ *gin.Context, lose func()) { lose() }, 500, "lock_lost"},
		"lost, with a status only": {false, func(c *gin.Context, lose func()) { c.Status(204); lose() }, 500, "lock_lost"},
		"lost after writing":       {false, func(c *gin.Context, lose func()) { c.JSON(200, "paid"); lose() }, 200, `"paid"`},
		"panics":                   {false, func(*gin.Context, func()) { panic("own") }, 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := guardtest.NewStore()
			g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, g.Close()) })
			if row.busy {
				lease, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.TTL(guard.DefaultTTL))
				require.NoError(t, err)
				defer func() { _ = lease.Release(context.Background()) }()
			}
			behind := 0
			engine := gin.New()
			engine.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.AbortWithStatus(500) }))
			engine.Use(func(c *gin.Context) {
				c.Next()
				_, held := guard.FromContext(c.Request.Context())
				assert.False(t, held, "outer layers have their request again")
			})
			engine.POST("/orders/:id/pay", lock(g, template), func(c *gin.Context) {
				behind++
				_, held := guard.Held(c.Request.Context(), "order:7")
				assert.True(t, held)
				row.work(c, func() { store.Drop("order:7"); <-c.Request.Context().Done() })
			})
			answer := postAs(engine, "", "/orders/%37/pay")
			assert.Equal(t, row.status, answer.Code)
			if strings.HasPrefix(row.body, "lock_") {
				assert.Contains(t, answer.Body.String(), `"code":"`+row.body+`"`)
				assert.Equal(t, "application/problem+json", answer.Header().Get("Content-Type"))
			} else {
				assert.Equal(t, row.body, answer.Body.String())
			}
			if row.busy {
				assert.Zero(t, behind)
				return
			}
			assert.Equal(t, 1, behind)
			lease, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.NoWait())
			if assert.NoError(t, err, "the lock is free") {
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
}

func TestMiddlewareByHandWithoutAKey(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	engine.POST("/pay", lock(guardtest.NewGuard(t), template), func(*gin.Context) { t.Error("ran") })
	engine.POST("/orders/:id/pay", lock(guardtest.NewGuard(t), template), func(*gin.Context) { t.Error("ran") })
	for path, status := range map[string]int{
		"/pay":            http.StatusInternalServerError, // the route has no order
		"/orders/%FF/pay": http.StatusBadRequest,
		"/orders/" + strings.Repeat("x", 600) + "/pay": http.StatusBadRequest,
	} {
		answer := postAs(engine, "", path)
		assert.Equal(t, status, answer.Code)
		assert.Contains(t, answer.Body.String(), `"code":"lock_key_invalid"`)
	}
}
