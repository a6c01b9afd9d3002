package inspect

import (
	"errors"
	"strings"

	"github.com/redlatch/redlatch/guard"
)

// ErrFormat says that a Guard did not write the value under a lock's key. See
// FormatError.
var ErrFormat = errors.New("inspect: not a lock")

// ErrInProgress says that a record was not forgotten, because its work is running.
var ErrInProgress = errors.New("inspect: the work of this record is in progress")

// FormatError has the fault of the value under a lock's key: a key of
// another type, a hash that was made by hand, a hash that lost fields. Nothing was
// changed. It matches ErrFormat and Err.
type FormatError struct {
	Key    string // the lock's key
	Reason string // the fault, without the key
	Err    error  // Redis' own error, or nil
}

// Error gives the reason, never the key.
func (e *FormatError) Error() string { return "inspect: not a lock: " + e.Reason }

// ErrorType is lock_format_invalid.
func (e *FormatError) ErrorType() string { return "lock_format_invalid" }

// Is makes every FormatError match ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

// Unwrap returns Err.
func (e *FormatError) Unwrap() error { return e.Err }

// failed gives the error of a command that Redis did not answer, or refused.
func failed(op, key string, err error) error {
	if strings.Contains(err.Error(), "WRONGTYPE") {
		return &FormatError{Key: key, Reason: "a Redis key of it is of another type", Err: err}
	}
	return &guard.StoreError{Op: op, Key: key, Err: err}
}
