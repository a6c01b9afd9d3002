package taskrule

import (
	"errors"
	"strings"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Table binds the rules of a table to g. It panics with the adapter's name and the row that is
// wrong.
func Table[T, R any](a *Adapter[T], g *guard.Guard, rows map[string]R, rule func(R) Rule[T]) map[string]*Locker[T] {
	return locking.Table(a.Name, rows, func(name string, row R) (*Locker[T], error) {
		if strings.TrimSpace(name) == "" {
			return nil, errBlank
		}
		return a.Bind(g, rule(row))
	})
}

var errBlank = errors.New("it is blank")

// CheckRows says which rows of a table lock nothing, as used does not have them, and why.
func CheckRows[T, R any](a *Adapter[T], rows map[string]R, used func(name string) bool, why string) error {
	return locking.CheckTable(a.Name, rows, func(name string, _ R) error {
		switch {
		case strings.TrimSpace(name) == "":
			return errBlank
		case !used(name):
			return errors.New(why)
		}
		return nil
	})
}
