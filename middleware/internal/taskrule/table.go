package taskrule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/guard"
)

// Table binds the rules of a table to g. It panics with the adapter's name and the row that is
// wrong.
func Table[T, R any](a *Adapter[T], g *guard.Guard, rows map[string]R, rule func(R) Rule[T]) map[string]*Locker[T] {
	table := make(map[string]*Locker[T], len(rows))
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		l, err := a.Bind(g, rule(rows[name]))
		if strings.TrimSpace(name) == "" {
			err = errBlank
		}
		if err != nil {
			panic(fmt.Sprintf("%s: row %q: %v", a.Name, name, err))
		}
		table[name] = l
	}
	return table
}

var errBlank = errors.New("it is blank")

// CheckRows says which rows of a table lock nothing, as used does not have them, and why.
func CheckRows[T, R any](a *Adapter[T], rows map[string]R, used func(name string) bool, why string) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		err := errBlank
		if strings.TrimSpace(name) != "" {
			if used(name) {
				continue
			}
			err = errors.New(why)
		}
		problems = append(problems, fmt.Errorf("%s: row %q: %w", a.Name, name, err))
	}
	return errors.Join(problems...)
}
