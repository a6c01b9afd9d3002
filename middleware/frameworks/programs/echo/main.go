// Command echo pays orders by echo.
package main

import (
	"log"
	"net/http"

	"github.com/labstack/echo/v5"

	guardecho "github.com/redlatch/redlatch/middleware/echov5"
	"github.com/redlatch/redlatch/middleware/frameworks/programs/internal/slow"
)

func main() {
	e := echo.New()
	e.POST("/orders/:id/pay", func(c *echo.Context) error {
		slow.Work(c.Request().Context())
		return c.JSON(http.StatusOK, map[string]bool{"paid": true})
	}, guardecho.Middleware(slow.Guard(), guardecho.Lock("order:{id}")))
	log.Fatal(http.Serve(slow.Listen(), e)) //nolint:gosec // a test's server needs no timeouts
}
