package main

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// handler serves the shop with echo and the back office with net/http.
func (a *app) handler() http.Handler {
	e := echo.New()
	e.Use(a.signals.route)
	e.POST("/orders/:id/pay", a.handlePay, a.service.locks.pay)
	e.POST("/orders/:id/charge", a.handleCharge)
	e.GET("/orders/:id", a.handleStatus)

	mux := http.NewServeMux()
	mux.Handle("POST /admin/orders/{id}/settle", a.signals.handler(a.service.locks.settle(http.HandlerFunc(a.handleSettle))))
	if a.guard != nil {
		mux.Handle(locksPath, a.locksPage())
	}
	mux.Handle("/", e)
	return mux
}

// locksPath is where the page is that shows the locks.
const locksPath = "/locks/"

// locksPage lets everybody revoke a lock: it is a demonstration. In earnest, ask who it is.
func (a *app) locksPage() http.Handler {
	return guardweb.Handler(inspect.New(a.redis.client, inspect.Prefix(a.redis.run)),
		guardweb.Leases(a.guard),
		guardweb.Show(a.seen),
		guardweb.Authorize(func(*http.Request) guardweb.Role { return guardweb.Act }),
	)
}

// handlePay pays the order now.
func (a *app) handlePay(c echo.Context) error {
	p, err := a.service.pay(c.Request().Context(), c.Param("id"))
	return respond(c, http.StatusOK, p, err)
}

// handleCharge has a task pay the order.
func (a *app) handleCharge(c echo.Context) error {
	p, err := a.service.status(c.Param("id"))
	if err == nil {
		p.Status = statusQueued
		err = a.worker.enqueue(c.Request().Context(), p.Order)
	}
	return respond(c, http.StatusAccepted, p, err)
}

func (a *app) handleStatus(c echo.Context) error {
	p, err := a.service.status(c.Param("id"))
	return respond(c, http.StatusOK, p, err)
}

func respond(c echo.Context, code int, p payment, err error) error {
	if errors.Is(err, errNoOrder) {
		return echo.NewHTTPError(http.StatusNotFound, errNoOrder.Error())
	}
	if err != nil {
		return guardecho.HTTPError(c, err) // of the stock's lock: that one is taken in code
	}
	return c.JSON(code, p)
}

// handleSettle pays the order by hand.
func (a *app) handleSettle(w http.ResponseWriter, r *http.Request) {
	p, err := a.service.pay(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, errNoOrder):
		http.Error(w, errNoOrder.Error(), http.StatusNotFound)
	case err != nil:
		guardhttp.WriteError(w, r, err)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p)
	}
}
