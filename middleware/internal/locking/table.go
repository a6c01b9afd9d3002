package locking

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Table binds the rows of a table. It panics with the adapter's name and the first row that is wrong.
func Table[R, L any](adapter string, rows map[string]R, bind func(name string, row R) (L, error)) map[string]L {
	table := make(map[string]L, len(rows))
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		bound, err := bind(name, rows[name])
		if err != nil {
			panic(fmt.Sprintf("%s: row %q: %v", adapter, name, err))
		}
		table[name] = bound
	}
	return table
}

// CheckTable returns an error with the problem of each row, or nil.
func CheckTable[R any](adapter string, rows map[string]R, check func(name string, row R) error) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if err := check(name, rows[name]); err != nil {
			problems = append(problems, fmt.Errorf("%s: row %q: %w", adapter, name, err))
		}
	}
	return errors.Join(problems...)
}
