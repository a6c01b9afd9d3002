package frameworks_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

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
