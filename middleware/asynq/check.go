package guardasynq

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Check says which rows lock nothing, as no task has one of them as its row: types lists
// the types that there are. A row that begins some of them, each of which has a longer row,
// locks nothing either. Call it before the server starts, or in a test. The error names each
// such row; it is nil if there is none.
func Check(types []string, tasks Tasks) error {
	var all rows
	for pattern := range tasks {
		all = append(all, row{pattern: pattern})
	}
	all.sort()
	used := map[string]bool{}
	for _, kind := range types {
		if row := all.match(kind); row != nil {
			used[row.pattern] = true
		}
	}
	var problems []error
	for _, pattern := range slices.Sorted(maps.Keys(tasks)) {
		err := checkPattern(pattern)
		if err == nil && !used[pattern] {
			err = errors.New("no task of the given types has it")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("guardasynq: row %q: %w", pattern, err))
		}
	}
	return errors.Join(problems...)
}
