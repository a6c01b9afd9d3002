package frameworks_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	kratos "github.com/go-kratos/kratos/v2/errors"
	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// orderOf is the key of a request that is the number of its order.
func orderOf(request any) guard.KeyFunc { return guard.Keyf("order:%s", request.(string)) }

// snippet serves one call for order 7, whose handler calls work and then succeeds with "paid".
// answer is the body of a success, and else "busy", "lost" or "down".
type snippet func(t *testing.T, g *guard.Guard, work func(context.Context)) (answer string)

// byStatus reads an answer over HTTP.
func byStatus(t *testing.T, code int, body string) string {
	t.Helper()
	known := map[int]string{http.StatusOK: body, http.StatusConflict: "busy", http.StatusInternalServerError: "lost", http.StatusServiceUnavailable: "down"}
	require.Contains(t, known, code)
	if code != http.StatusOK {
		assert.NotContains(t, body, "paid")
	}
	return known[code]
}

var snippets = map[string]snippet{
	"fiber": func(t *testing.T, g *guard.Guard, work func(context.Context)) string {
		server := fiber.New()
		server.Post("/orders/:id/pay", lockFiber(g), func(c fiber.Ctx) error {
			work(c.Context())
			return c.SendString("paid")
		})
		res, err := server.Test(httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil), fiber.TestConfig{})
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return byStatus(t, res.StatusCode, string(body))
	},
	"connect": func(t *testing.T, g *guard.Guard, work func(context.Context)) string {
		const pay = "/orders.v1.Orders/Pay"
		server := httptest.NewServer(connect.NewUnaryHandler(pay, func(ctx context.Context, _ *connect.Request[payRequest]) (*connect.Response[payRequest], error) {
			work(ctx)
			return connect.NewResponse(&payRequest{Value: "paid"}), nil
		}, connect.WithInterceptors(lockConnect(g))))
		defer server.Close()
		client := connect.NewClient[payRequest, payRequest](server.Client(), server.URL+pay)
		resp, err := client.CallUnary(t.Context(), connect.NewRequest(&payRequest{Value: "7"}))
		if err == nil {
			return resp.Msg.GetValue()
		}
		return map[connect.Code]string{connect.CodeAborted: "busy", connect.CodeUnknown: "lost", connect.CodeUnavailable: "down"}[connect.CodeOf(err)]
	},
	"kratos": func(t *testing.T, g *guard.Guard, work func(context.Context)) string {
		answer, err := lockKratos(g, orderOf)(func(ctx context.Context, _ any) (any, error) {
			work(ctx)
			return "paid", nil
		})(t.Context(), "7")
		if err == nil {
			return answer.(string)
		}
		assert.Nil(t, answer)
		return byStatus(t, int(kratos.FromError(err).Code), "")
	},
}

// What docs show for a framework without an adapter is right in all cases.
func TestSnippets_AnswerBusyLostAndDown(t *testing.T) {
	t.Parallel()
	for name, call := range snippets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := guardtest.NewStore()
			g, err := guard.NewWithStore(store, guard.TTL(100*time.Millisecond), guard.NoWait(), guard.StoreTimeout(50*time.Millisecond))
			require.NoError(t, err)
			defer func() { _ = g.Close() }()
			assert.Equal(t, "paid", call(t, g, func(ctx context.Context) {
				_, held := guard.Held(ctx, guard.Key("order:7"))
				assert.True(t, held)
			}))
			lease, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.TTL(guard.DefaultTTL))
			require.NoError(t, err, "it is free")
			assert.Equal(t, "busy", call(t, g, func(context.Context) { t.Error("ran") }))
			require.NoError(t, lease.Release(t.Context()))
			// Neither handler reports its loss.
			assert.Equal(t, "lost", call(t, g, func(context.Context) { store.Drop("order:7") }))
			assert.Equal(t, "lost", call(t, g, func(ctx context.Context) { store.Drop("order:7"); <-ctx.Done() }))
			store.Fail(errors.New("down"))
			assert.Equal(t, "down", call(t, g, func(context.Context) { t.Error("ran") }))
		})
	}
}
