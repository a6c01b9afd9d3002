package guardecho

import (
	"fmt"
	"maps"
	"slices"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/echocore"
)

// Annotate is middleware that locks some routes of an Echo or of a group:
//
//	e.Use(guardecho.Annotate(g, guardecho.Routes{
//		"POST /orders/:id/pay": guardecho.Lock("order:{id}", guard.NoWait()),
//		"DELETE /orders/:id":   guardecho.Lock("order:{id}"),
//	}))
//
// A row is a method and the path of a route, in full also where a group adds a part of
// it. Which route a request has, echo decides; requests of other routes, and those
// without one, pass untouched. A row for a route that does not exist locks nothing: see
// Check. Names of parameters may differ from the route's, but keys see the route's.
//
// With a nil g, the Guard in the request's context locks, or else the one given to
// guard.SetDefault. opts apply to every row, and the row's own options behind them. The
// lock's Name is the row if With sets none, and its Wait is 2 seconds if neither With nor
// the Guard set one. It is for Use: given to Echo.Pre, it answers 500.
//
// Annotate panics if a row is malformed or the same as another one, its Key is nil, the
// template of its Lock needs more path parameters than the row has, or an option is out of
// its bounds.
func Annotate(g *guard.Guard, routes Routes, opts ...Option) echo.MiddlewareFunc {
	var table echocore.Table[*echo.Context]
	for _, route := range slices.Sorted(maps.Keys(routes)) {
		own := routes[route]
		guarded, err := newRule(g, own.Key, slices.Concat(opts, own.Options)...)
		if err == nil {
			err = table.Add(route, guarded, own.placeholders)
		}
		if err != nil {
			panic(fmt.Sprintf("guardecho: row %q: %v", route, err))
		}
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		refuseNil(next)
		return func(c *echo.Context) error { return table.Handle(v5, c, next) }
	}
}
