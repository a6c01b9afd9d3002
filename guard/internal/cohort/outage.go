package cohort

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
)

// outageMemory is for how long a Table believes that nobody answers, while it finds out.
const outageMemory = 30 * time.Second

// outages are the servers that answer nobody, as the calls with FailOpen found out. As long
// as that is remembered, such calls do not wait for an answer: each would pay a whole timeout
// for nothing.
type outages struct {
	mu       sync.Mutex
	byServer map[string]error // what a call was told
}

// NotAskedError is the error of a call that was not sent.
type NotAskedError struct{ err error }

func (e NotAskedError) Error() string {
	return fmt.Sprintf("not asked for, as there is no answer: %v", e.err)
}

// Unwrap returns what an earlier call was told.
func (e NotAskedError) Unwrap() error { return e.err }

// serverOf tells servers apart that fail apart: the nodes of a cluster.
func (t *Table) serverOf(ctx context.Context, key string) string {
	if s, ok := t.Store.(guardstore.ServerNamer); ok {
		return s.Server(ctx, key)
	}
	return ""
}

// outage is the error of a call with FailOpen that need not be sent, or nil.
func (t *Table) outage(ctx context.Context, key string) error {
	t.outages.mu.Lock()
	known := len(t.outages.byServer) > 0
	t.outages.mu.Unlock()
	if !known {
		return nil
	}
	server := t.serverOf(ctx, key)
	t.outages.mu.Lock()
	defer t.outages.mu.Unlock()
	if err := t.outages.byServer[server]; err != nil {
		return &retry.Error{Op: acquireOp, Key: key, Err: NotAskedError{err}}
	}
	return nil
}

// NoteOutage remembers that a call got no answer, and finds out behind it when there is one.
func (t *Table) NoteOutage(ctx context.Context, label retry.Label, ttl time.Duration, err error) {
	server := t.serverOf(ctx, label.Key)
	t.outages.mu.Lock()
	defer t.outages.mu.Unlock()
	if t.outages.byServer[server] != nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	asking := t.Tasks.Go(func() {
		// An owner that never claimed has nothing to give back: it changes nothing.
		nothing := guardstore.Release{Key: label.Key, Owner: t.NewOwner(guardstore.Exclusive), TTL: ttl}
		_, _ = t.NewRelease(label, nothing).Run(ctx, t.Abort, clock.Now().Add(outageMemory))
		t.outages.mu.Lock()
		defer t.outages.mu.Unlock()
		delete(t.outages.byServer, server)
	})
	if asking {
		if t.outages.byServer == nil {
			t.outages.byServer = make(map[string]error)
		}
		t.outages.byServer[server] = err
	}
}
