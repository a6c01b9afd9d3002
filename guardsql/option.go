package guardsql

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/redlatch/redlatch/guard"
)

// defaultTable is the name of the table that Schema creates.
const defaultTable = "redlatch_fences"

// Option is an option of [Fence], [FencePGX] and [InTx]: a [Dialect], [For] or [Table]. Of two of a
// kind, the last one counts.
type Option interface {
	apply(s *settings) error
}

type settings struct {
	dialect Dialect
	table   string
	key     guard.KeyFunc // nil: the innermost lock
}

func newSettings(opts []Option) (settings, error) {
	s := settings{dialect: Postgres, table: defaultTable}
	for _, o := range opts {
		if o == nil {
			return s, errors.New("guardsql: an Option is nil")
		}
		if err := o.apply(&s); err != nil {
			return s, err
		}
	}
	return s, nil
}

type option func(s *settings) error

func (o option) apply(s *settings) error { return o(s) }

// For chooses the lock with that key, if ctx has several. Give the KeyFunc that took the lock. To
// fence under several locks, call Fence for each, always in the same order, as databases detect
// deadlocks but do not prevent them.
func For(key guard.KeyFunc) Option {
	return option(func(s *settings) error {
		if key == nil {
			return errors.New("guardsql: For: key is nil")
		}
		s.key = key
		return nil
	})
}

// tableName is a name that needs no quotes, with its schema or without.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Table names the table of fences, "redlatch_fences" by default: letters, digits and underscores, at
// most 63, with a schema in front ("app.fences") or without. Guards with different prefixes that lock
// the same key need a table each.
func Table(name string) Option {
	return option(func(s *settings) error {
		if !tableName.MatchString(name) {
			return fmt.Errorf("guardsql: Table: %q is not a name of 1 to 63 letters, digits and underscores, with a schema or without", name)
		}
		s.table = name
		return nil
	})
}
