package frameworks_test

import (
	"context"
	"errors"

	"github.com/gofiber/fiber/v3"

	"github.com/redlatch/redlatch/guard"
)

func lockFiber(g *guard.Guard) fiber.Handler {
	return func(c fiber.Ctx) error {
		outer := c.Context()
		defer func() { c.SetContext(outer) }()
		err := g.WithLock(outer, guard.Keyf("order:%s", c.Params("id")), func(ctx context.Context) error {
			c.SetContext(ctx) // ends if the lock is lost
			return c.Next()
		})
		switch {
		case errors.Is(err, guard.ErrLost):
			return fiber.NewError(fiber.StatusInternalServerError, "lock lost: the outcome is not known")
		case errors.Is(err, guard.ErrBusy):
			return fiber.NewError(fiber.StatusConflict, "another request works on this order")
		case errors.Is(err, guard.ErrStore), errors.Is(err, guard.ErrClosed):
			return fiber.NewError(fiber.StatusServiceUnavailable)
		}
		return err
	}
}
