package adaptertest

import (
	"context"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// everyError has an error of each kind.
var everyError = []error{
	&guard.BusyError{}, &guard.BusyError{Waited: 1}, &guard.BusyError{HeldOver: true}, &guard.BusyError{Limit: 3},
	&guard.BusyError{Err: context.DeadlineExceeded}, &guard.BusyError{Err: context.Canceled},
	&guard.LostError{Cause: guard.ErrClosed}, &guard.LostError{Cause: guard.ErrMaxHold},
	&guard.LostError{Cause: guard.ErrReleased}, &guard.LostError{Cause: guard.ErrRevoked},
	&guard.StoreError{}, &guard.KeyError{}, &guard.KeyError{Err: locking.Invalid("missing")}, &guard.OptionError{},
	guard.ErrClosed, guard.ErrNoGuard,
	&guard.OnceError{Err: guard.ErrOtherInput}, &guard.OnceError{Err: guard.ErrUnknownOutcome},
	&guard.OnceError{Err: guard.ErrDamagedRecord}, &guard.OnceError{Err: guard.ErrNotKept},
}

// A row of the table of names: error.type, status of HTTP, status of gRPC.
var nameRow = regexp.MustCompile("(?m)^\\| `Err[^|]*\\| `(\\w+)` \\| (\\d+) \\| `(\\w+)` \\|$")

// ErrorNames checks that an answer has the error.type of telemetry, and the status that the page errors.md has in a
// column of the table of names: 2 for HTTP, 3 for gRPC.
func ErrorNames(t *testing.T, page string, column int, answer func(error) (name, status string)) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	said, answered := map[string][]string{}, map[string][]string{}
	for _, row := range nameRow.FindAllStringSubmatch(string(text), -1) {
		said[row[1]] = append(said[row[1]], row[column])
	}
	for _, err := range everyError {
		var typed interface{ ErrorType() string }
		require.ErrorAs(t, err, &typed)
		name, status := answer(err)
		assert.Equal(t, typed.ErrorType(), name)
		answered[name] = append(answered[name], status)
	}
	assert.Equal(t, said, answered)
}
