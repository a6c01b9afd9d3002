package locking

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/redlatch/redlatch/guard"
)

// Faults logs mistakes of the program. It may be used concurrently.
type Faults struct{ logged sync.Map }

type loggedFault struct{ route, fault string }

// Log logs err once for each route and fault, unless fault is "". The text of an error of guard has no key and no other
// value of the request.
func (f *Faults) Log(ctx context.Context, adapter, route, fault string, err error) {
	if fault == "" {
		return
	}
	if _, known := f.logged.LoadOrStore(loggedFault{route, fault}, true); known {
		return
	}
	slog.Default().ErrorContext(ctx, adapter+": the program is at fault, and answers an internal error; logged once for each route and fault",
		"route", route, "fault", fault, "error", err)
}

// LogLost logs a loss that came too late to be answered: the caller has a success, or a part of it. It does not log the
// key; the program's hook for errors gets it.
func LogLost(ctx context.Context, adapter, route string, err error) {
	var lost *guard.LostError // without the work's own error
	if errors.As(err, &lost) {
		slog.Default().ErrorContext(ctx, adapter+": the lock was lost after the answer had begun, so the caller was not told",
			"route", route, "error", lost)
	}
}
