package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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

func TestErrors_ShowTheKeyWhenAskedFor(t *testing.T) {
	for _, err := range []error{
		&guard.BusyError{Name: "n", Key: "secret", Holder: "secret", Waited: time.Second},
		&guard.LostError{Name: "n", Key: "secret", Cause: guard.ErrMaxHold},
		&guard.StoreError{Op: "acquire", Name: "n", Key: "secret", Err: errors.New("cause")},
		&guard.KeyError{Key: "secret", Reason: "too long"},
		&guard.OnceError{Name: "n", Key: "secret", Err: guard.ErrNotKept},
	} {
		assert.Equal(t, err.Error()+` (key "secret")`, fmt.Sprintf("%+v", err))
		for _, format := range []string{"%v", "%s", "%q", "%#v", "%x"} {
			assert.Equal(t, fmt.Sprintf(format, err.Error()), fmt.Sprintf(format, err))
		}
	}
	assert.Equal(t, "guard: invalid lock key: empty", fmt.Sprintf("%+v", &guard.KeyError{Reason: "empty"}))
}

func TestErrors_AreFieldsOfALogLine(t *testing.T) {
	for want, err := range map[string]error{
		`err.type=lock_wait_timeout err.lock=n err.waited=1s err.retry_after=2s`: &guard.BusyError{Name: "n", Key: "secret", Waited: time.Second, RetryAfter: 2 * time.Second},
		`err.type=lock_max_hold err.lock=n`:                                      &guard.LostError{Name: "n", Key: "secret", Cause: guard.ErrMaxHold},
		`err.type=store_unavailable err.lock=n err.op=renew`:                     &guard.StoreError{Op: "renew", Name: "n", Key: "secret", Err: errors.New("cause")},
		`err.type=lock_key_invalid`:                                              &guard.KeyError{Key: "secret", Reason: "too long"},
		`err.type=once_not_kept err.lock=n`:                                      &guard.OnceError{Name: "n", Key: "secret", Err: guard.ErrNotKept},
	} {
		var line strings.Builder
		slog.New(slog.NewTextHandler(&line, nil)).Info("x", "err", err)
		assert.Contains(t, line.String(), fmt.Sprintf("err.msg=%q %s\n", err.Error(), want))
		assert.NotContains(t, line.String(), "secret")
	}
}
