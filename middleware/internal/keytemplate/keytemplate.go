// Package keytemplate has the key templates of package locking under their former names.
package keytemplate

import "github.com/redlatch/redlatch/middleware/internal/locking"

type (
	// Grammar is locking.Grammar.
	Grammar[S any] = locking.Grammar[S]
	// Extract is locking.Extract.
	Extract[S any] = locking.Extract[S]
	// Bind is locking.Bind.
	Bind[S any] = locking.Bind[S]
	// ValueError is locking.ValueError.
	ValueError = locking.ValueError
)

// Invalid is locking.Invalid.
func Invalid(reason string) error { return locking.Invalid(reason) }

// Unfit is locking.Unfit.
func Unfit(reason string) error { return locking.Unfit(reason) }

// ValueErrorIn is locking.ValueErrorIn.
func ValueErrorIn(err error) *ValueError { return locking.ValueErrorIn(err) }

// Parse is locking.Parse.
func Parse[S any](text string, grammar Grammar[S]) (*locking.Template[S], error) {
	return locking.Parse(text, grammar)
}
