package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/retry"
)

// outageMemory is for how long a Guard assumes that a server does not answer, while it finds out.
const outageMemory = 30 * time.Second

// outages are the servers that did not answer a call with FailOpen. As long
// as that is remembered, such calls do not wait for an answer: each would pay a whole timeout
// for nothing.
type outages struct {
	mu       sync.Mutex
	byServer map[string]error // the error of a call
}

// serverOf returns the name of the server of a key: nodes of a cluster fail independently.
func (g *Guard) serverOf(ctx context.Context, key string) string {
	if s, ok := g.store.(guardstore.ServerNamer); ok {
		return s.Server(ctx, key)
	}
	return ""
}

// outage returns the error of a call with FailOpen that need not be sent, or nil.
func (g *Guard) outage(ctx context.Context, key string) error {
	server := g.serverOf(ctx, key)
	g.outages.mu.Lock()
	defer g.outages.mu.Unlock()
	if err := g.outages.byServer[server]; err != nil {
		return &retry.Error{Op: "acquire", Key: key, Err: fmt.Errorf("not asked for, as there is no answer: %w", err)}
	}
	return nil
}

// noteOutage remembers that a call with FailOpen got no answer, if that is what err says, and finds
// out asynchronously when there is one.
func (g *Guard) noteOutage(ctx context.Context, lock Lock, ttl time.Duration, err error) {
	var failure *StoreError
	if !errors.As(err, &failure) || failure.answered {
		return
	}
	server := g.serverOf(ctx, lock.Key)
	g.outages.mu.Lock()
	defer g.outages.mu.Unlock()
	if g.outages.byServer[server] != nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	asking := g.tasks.Go(func() {
		_ = g.probe(ctx, retry.Call{Op: "release", Label: retry.Label(lock), For: outageMemory, Stop: g.abort}, ttl)
		g.outages.mu.Lock()
		defer g.outages.mu.Unlock()
		delete(g.outages.byServer, server)
	})
	if asking {
		if g.outages.byServer == nil {
			g.outages.byServer = make(map[string]error)
		}
		g.outages.byServer[server] = failure.Err
	}
}

// Ping says whether locks can be taken: a probe of readiness. It sends the store a command
// that changes nothing, by the same way as those of locks: Redis, its scripts, the right to write,
// on a cluster one of the nodes, of a quorum a majority. It returns nil, ErrNoGuard,
// ErrClosed, a StoreError when there is no answer within StoreTimeout or it is a refusal,
// or the error of ctx. A nil ctx does not end.
func (g *Guard) Ping(ctx context.Context) error { //nolint:contextcheck // a nil ctx has no parent
	if err := g.usable(); err != nil {
		return err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	stop, open := g.inside.Enter(false)
	if !open {
		return ErrClosed
	}
	defer g.inside.Leave()
	lock := Lock{Name: g.lock.name, Key: "ping:" + g.instance}
	err := g.probe(ctx, retry.Call{Op: "ping", Label: retry.Label(lock), For: g.storeTimeout, Stop: stop}, 0)
	var failure *retry.Error
	switch {
	case errors.Is(err, retry.ErrStopped):
		return ErrClosed
	case err != nil && ctx.Err() != nil:
		return ended(ctx)
	case errors.As(err, &failure):
		return storeError(failure, "")
	}
	return nil
}

// probe sends a command that changes nothing, in the same way as those of locks: it releases a claim that never was.
func (g *Guard) probe(ctx context.Context, c retry.Call, ttl time.Duration) error {
	r := guardstore.Release{Key: c.Label.Key, Owner: g.cohorts.NewOwner(guardstore.Exclusive), TTL: ttl}
	_, err := retry.Do(ctx, g.cohorts.Calls, c, g.store.Release, r)
	return err
}
