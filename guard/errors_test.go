package guard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
)

func TestErrors_AreTypedAndTellNothingSecret(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		err  error
		kind string
		is   []error
		not  []error
	}{
		{&guard.BusyError{Name: "n", Key: "secret", Holder: "secret"}, "lock_busy", []error{guard.ErrBusy}, []error{guard.ErrLost}},
		{&guard.BusyError{Name: "n", Key: "secret", Waited: time.Second}, "lock_wait_timeout", []error{guard.ErrBusy}, nil},
		{&guard.BusyError{Key: "secret", Err: context.Canceled}, "canceled", []error{guard.ErrBusy, context.Canceled}, nil},
		{&guard.BusyError{Key: "secret", Err: context.DeadlineExceeded}, "deadline_exceeded", []error{guard.ErrBusy, context.DeadlineExceeded}, nil},
		{&guard.LostError{Key: "secret", Cause: cause}, "lock_lost", []error{guard.ErrLost, cause}, []error{guard.ErrStore}},
		{&guard.LostError{Key: "secret", Cause: guard.ErrMaxHold}, "lock_max_hold", []error{guard.ErrLost, guard.ErrMaxHold}, nil},
		{&guard.LostError{Key: "secret", Cause: guard.ErrReleased}, "lock_released", []error{guard.ErrLost, guard.ErrReleased}, nil},
		{&guard.LostError{Key: "secret", Cause: guard.ErrClosed}, "lock_lost", []error{guard.ErrLost, guard.ErrClosed}, nil},
		{&guard.StoreError{Op: "acquire", Key: "secret", Err: cause}, "store_unavailable", []error{guard.ErrStore, cause}, nil},
		{&guard.KeyError{Key: "secret", Reason: "empty", Err: cause}, "lock_key_invalid", []error{guard.ErrKey, cause}, nil},
		{&guard.OptionError{Option: "TTL", Reason: "is bad"}, "option_invalid", []error{guard.ErrOption}, []error{guard.ErrKey}},
		{guard.ErrBusy, "lock_busy", nil, nil},
		{guard.ErrLost, "lock_lost", nil, nil},
		{guard.ErrMaxHold, "lock_max_hold", nil, nil},
		{guard.ErrReleased, "lock_released", nil, nil},
		{guard.ErrStore, "store_unavailable", nil, nil},
		{guard.ErrKey, "lock_key_invalid", nil, nil},
		{guard.ErrOption, "option_invalid", nil, nil},
		{guard.ErrClosed, "guard_closed", nil, nil},
		{guard.ErrNoGuard, "no_guard", nil, nil},
	} {
		var typed interface{ ErrorType() string }
		assert.ErrorAs(t, c.err, &typed)
		assert.Equal(t, c.kind, typed.ErrorType())
		assert.NotContains(t, c.err.Error(), "secret")
		assert.NotEmpty(t, c.err.Error())
		for _, target := range c.is {
			assert.ErrorIs(t, c.err, target)
		}
		for _, target := range c.not {
			assert.NotErrorIs(t, c.err, target)
		}
	}
}
