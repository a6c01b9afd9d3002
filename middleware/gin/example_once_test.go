package guardgin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	guardgin "github.com/redlatch/redlatch/middleware/gin"
)

func ExampleRule_Once() {
	g := newGuard()
	defer g.Close()

	charges := 0
	engine := gin.New()
	engine.POST("/orders/:id/pay",
		guardgin.Middleware(g, guardgin.Lock("pay:{header:X-Tenant}:{idempotency-key}").Once(24*time.Hour)),
		func(c *gin.Context) {
			charges++
			c.String(http.StatusCreated, "charge %d", charges)
		})

	pay := func(body string) {
		request := httptest.NewRequest(http.MethodPost, "/orders/42/pay", strings.NewReader(body))
		request.Header.Set("X-Tenant", "acme")
		request.Header.Set("Idempotency-Key", "7f9c")
		answer := httptest.NewRecorder()
		engine.ServeHTTP(answer, request)
		fmt.Println(answer.Code, answer.Header().Get("Idempotent-Replayed") == "true", strings.Contains(answer.Body.String(), "charge 1"))
	}
	pay("70 EUR")
	pay("70 EUR") // the client did not get the answer, and asks again
	pay("80 EUR")
	// Output:
	// 201 false true
	// 201 true true
	// 422 false false
}
