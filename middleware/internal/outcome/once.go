package outcome

import (
	"context"
	"errors"
	"net/http"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// InProgressError says that a lock is busy because an earlier request with the same key is being served.
type InProgressError struct{ Err error } // has a *guard.BusyError

// Error is that of Err.
func (e *InProgressError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *InProgressError) Unwrap() error { return e.Err }

// BodyError says that the body of a request could not be read before its handler.
type BodyError struct{ Err error } // has a *http.MaxBytesError where it was too large

// Error gives the reason.
func (e *BodyError) Error() string { return "read the body of the request: " + e.Err.Error() }

// Unwrap returns Err.
func (e *BodyError) Unwrap() error { return e.Err }

func (e *BodyError) outcome(ctx context.Context) Outcome {
	o := bodyUnreadable
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		o = table[locking.Cancelled]
		o.Kind = locking.Cancelled
		return o
	case errors.As(e.Err, new(*http.MaxBytesError)):
		o = bodyTooLarge
	}
	o.Kind = locking.KeyMissing
	return o
}
