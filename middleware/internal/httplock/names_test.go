package httplock

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// examples has an error of each kind.
var examples = []error{
	&guard.BusyError{},
	&guard.BusyError{Waited: time.Second},
	&guard.BusyError{Err: context.DeadlineExceeded},
	&guard.BusyError{Err: context.Canceled},
	&guard.LostError{Cause: guard.ErrClosed},
	&guard.LostError{Cause: guard.ErrMaxHold},
	&guard.LostError{Cause: guard.ErrReleased},
	&guard.LostError{Cause: guard.ErrRevoked},
	&guard.BusyError{HeldOver: true},
	&guard.BusyError{Limit: 3},
	&guard.StoreError{},
	&guard.KeyError{},
	&guard.KeyError{Err: locking.Invalid("missing")},
	&guard.OptionError{},
	guard.ErrClosed,
	guard.ErrNoGuard,
	&guard.OnceError{Err: guard.ErrOtherInput},
	&guard.OnceError{Err: guard.ErrUnknownOutcome},
	&guard.OnceError{Err: guard.ErrDamagedRecord},
	&guard.OnceError{Err: guard.ErrNotKept},
}

// A row of the table of names: name, status.
var nameRow = regexp.MustCompile("(?m)^\\| `Err[^|]*\\| `(\\w+)` \\| (\\d+) \\| `\\w+` \\|$")

// The code of an answer is the error.type of telemetry. The guide has each with its status.
func TestNames_CodeIsTheErrorType(t *testing.T) {
	t.Parallel()
	answered := map[string][]string{}
	for _, err := range examples {
		var typed interface{ ErrorType() string }
		require.ErrorAs(t, err, &typed)
		answer := Of(t.Context(), err, nil)
		assert.Equal(t, typed.ErrorType(), answer.Code)
		assert.Equal(t, typeBase+answer.Code, answer.Type)
		assert.NotEmpty(t, answer.Title)
		assert.NotEmpty(t, answer.Detail)
		answered[answer.Code] = append(answered[answer.Code], strconv.Itoa(answer.Status))
	}
	text, err := os.ReadFile("../../../docs/reference/errors.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## Names of errors")
	require.True(t, found)
	said := map[string][]string{}
	for _, row := range nameRow.FindAllStringSubmatch(table, -1) {
		said[row[1]] = append(said[row[1]], row[2])
	}
	assert.Equal(t, answered, said)
}

func TestNames_SentinelsHaveTheCodeOfTheirErrors(t *testing.T) {
	t.Parallel()
	for _, pair := range []struct{ sentinel, typed error }{
		{guard.ErrBusy, &guard.BusyError{}},
		{guard.ErrLost, &guard.LostError{Cause: errors.New("cause")}},
		{guard.ErrStore, &guard.StoreError{}},
		{guard.ErrKey, &guard.KeyError{}},
		{guard.ErrOption, &guard.OptionError{}},
	} {
		want := Of(t.Context(), pair.typed, nil).Code
		assert.Equal(t, want, Of(t.Context(), pair.sentinel, nil).Code, "%v", pair.sentinel)
	}
}
