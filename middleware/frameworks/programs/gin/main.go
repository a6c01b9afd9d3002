// Command gin pays orders by gin.
package main

import (
	"log"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/middleware/frameworks/programs/internal/slow"
	guardgin "github.com/redlatch/redlatch/middleware/gin"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.POST("/orders/:id/pay", guardgin.Middleware(slow.Guard(), guardgin.Lock("order:{id}")), func(c *gin.Context) {
		slow.Work(c.Request.Context())
		c.JSON(http.StatusOK, gin.H{"paid": true})
	})
	log.Fatal(engine.RunListener(slow.Listen()))
}
