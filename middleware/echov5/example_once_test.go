package guardecho_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/labstack/echo/v5"

	guardecho "github.com/redlatch/redlatch/middleware/echov5"
)

func ExampleRule_Once() {
	g := newGuard()
	defer g.Close()

	charges := 0
	e := echo.New()
	e.POST("/orders/:id/pay", func(c *echo.Context) error {
		charges++
		return c.String(http.StatusCreated, fmt.Sprint("charge ", charges))
	}, guardecho.Middleware(g, guardecho.Lock("pay:{header:X-Tenant}:{idempotency-key}").Once(24*time.Hour)))

	pay := func(body string) {
		request := httptest.NewRequest(http.MethodPost, "/orders/42/pay", strings.NewReader(body))
		request.Header.Set("X-Tenant", "acme")
		request.Header.Set("Idempotency-Key", "7f9c")
		answer := httptest.NewRecorder()
		e.ServeHTTP(answer, request)
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
