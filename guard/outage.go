package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

// outageMemory is for how long a Guard believes that nobody answers, while it finds out.
const outageMemory = 30 * time.Second

// outages are the servers that answer nobody, as the calls with FailOpen found out. As long
// as that is remembered, such calls do not wait for an answer: each would pay a StoreTimeout
// for nothing.
type outages struct {
	mu sync.Mutex
	by map[string]error // what a call was told, by server
}

// outageError is the error of a call that was not sent.
type outageError struct{ err error }

func (e outageError) Error() string {
	return fmt.Sprintf("not asked for, as there is no answer: %v", e.err)
}
func (e outageError) Unwrap() error { return e.err }

// serverOf tells servers apart that fail apart: the nodes of a cluster.
func (g *Guard) serverOf(ctx context.Context, key string) string {
	if s, ok := g.store.(interface {
		Server(ctx context.Context, key string) string
	}); ok {
		return s.Server(ctx, key)
	}
	return ""
}

// outage is the error of a call with FailOpen that need not be sent, or nil.
func (g *Guard) outage(ctx context.Context, key string) error {
	g.outages.mu.Lock()
	known := len(g.outages.by) > 0
	g.outages.mu.Unlock()
	if !known {
		return nil
	}
	server := g.serverOf(ctx, key)
	g.outages.mu.Lock()
	defer g.outages.mu.Unlock()
	if err := g.outages.by[server]; err != nil {
		return &StoreError{Op: "acquire", Key: key, Err: outageError{err}}
	}
	return nil
}

// noteOutage remembers that a call got no answer, and finds out behind it when there is one.
func (g *Guard) noteOutage(ctx context.Context, c call, err error) {
	var failure *StoreError
	if !errors.As(err, &failure) || failure.answered || errors.As(err, new(outageError)) {
		return
	}
	server := g.serverOf(ctx, c.lock.Key)
	g.outages.mu.Lock()
	defer g.outages.mu.Unlock()
	if g.outages.by[server] != nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	asking := g.tasks.Go(func() {
		// An owner that never claimed has nothing to give back: it changes nothing.
		nothing := guardstore.Release{Key: c.lock.Key, Owner: g.newOwner(1), TTL: c.ttl}
		_, _ = g.newRelease(c.lock, nothing, nil).Run(ctx, g.abort, clock.Now().Add(outageMemory+g.storeTimeout))
		g.outages.mu.Lock()
		defer g.outages.mu.Unlock()
		delete(g.outages.by, server)
	})
	if asking {
		if g.outages.by == nil {
			g.outages.by = make(map[string]error)
		}
		g.outages.by[server] = failure.Err
	}
}
