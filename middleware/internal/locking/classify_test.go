package locking_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// What an error means is the same for all protocols; the HTTP table of it is in outcome.
func TestClassify(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err   error
		kind  locking.Kind
		full  bool
		retry bool
		fault string
	}{
		{errors.New("own"), locking.Foreign, false, false, ""},
		{&guard.BusyError{}, locking.Busy, false, true, ""},
		{&guard.BusyError{Waited: time.Second}, locking.WaitTimeout, false, true, ""},
		{&guard.BusyError{Limit: 3}, locking.Busy, true, true, ""},
		{&guard.BusyError{Limit: 3, Waited: time.Second}, locking.WaitTimeout, true, true, ""},
		{&guard.StoreError{}, locking.Down, false, true, ""},
		{guard.ErrClosed, locking.Closed, false, true, ""},
		{&guard.LostError{Cause: guard.ErrClosed}, locking.Lost, false, false, ""},
		{&guard.KeyError{Err: keytemplate.Invalid("missing")}, locking.KeyMissing, false, false, ""},
		{&guard.KeyError{Err: keytemplate.Unfit("no such value")}, locking.KeyUnfit, false, false, "key template does not fit the route"},
		{&guard.KeyError{Err: errors.New("own")}, locking.KeyFailed, false, false, "key function"},
		{guard.ErrNoGuard, locking.NoGuard, false, false, "no Guard"},
		{&guard.OptionError{}, locking.BadOption, false, false, "option"},
		{&guard.UpgradeError{}, locking.Upgrade, false, false, "option"},
		{&guard.OnceError{Err: guard.ErrOtherInput}, locking.OtherInput, false, false, ""},
		{&guard.OnceError{Err: guard.ErrUnknownOutcome}, locking.UnknownOutcome, false, false, ""},
		{&guard.OnceError{Err: guard.ErrNotKept}, locking.NotKept, false, false, ""},
	} {
		got := locking.Classify(t.Context(), row.err)
		assert.Equal(t, row.kind, got.Kind, "%#v", row.err)
		assert.Equal(t, row.full, got.Full, "%#v", row.err)
		assert.Equal(t, row.retry, got.RetryAfter >= time.Second, "%#v", row.err)
		assert.Equal(t, row.fault, got.Kind.Fault(), "%#v", row.err)
		assert.Equal(t, row.kind == locking.KeyUnfit, locking.Unfit(row.err), "%#v", row.err)
	}
}
