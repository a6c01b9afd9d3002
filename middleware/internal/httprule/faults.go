package httprule

import (
	"context"
	"log/slog"
	"sync"

	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// Faults logs what the program, and no request, is to blame for: nobody else would tell it.
// Each kind is logged once for each route. It may be used concurrently.
type Faults struct{ logged sync.Map }

type loggedFault struct {
	route string
	kind  outcome.Fault
}

// Log logs err, if the answer to it says that the program is at fault. Neither is the key
// in the text of an error of guard, nor is anything else that the client sent.
func (f *Faults) Log(ctx context.Context, adapter, route string, answer outcome.Outcome, err error) {
	if answer.Fault == outcome.NoFault {
		return
	}
	if _, known := f.logged.LoadOrStore(loggedFault{route, answer.Fault}, true); known {
		return
	}
	slog.Default().ErrorContext(ctx, adapter+": answered 500, as the program is at fault; logged once for each route and fault",
		"route", route, "fault", string(answer.Fault), "error", err)
}
