package locking

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/redlatch/redlatch/guard"
)

// Faults logs errors that no caller would see. It may be used concurrently.
type Faults struct{ logged sync.Map }

type loggedFault struct{ route, fault string }

// Log logs err, if it is a fault of the program: once for each route and fault. Neither is
// the key in the text of an error of guard, nor is anything else that was sent.
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

// LogLost logs each loss that came too late to be answered: the caller has a success, or a
// part of one. The key is not logged: the program's hook for errors has it.
func LogLost(ctx context.Context, adapter, route string, err error) {
	var lost *guard.LostError // alone: what the work returned is the work's
	if errors.As(err, &lost) {
		slog.Default().ErrorContext(ctx, adapter+": the lock was lost after the answer had begun, so the caller was not told",
			"route", route, "error", lost)
	}
}
