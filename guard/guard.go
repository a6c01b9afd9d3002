package guard

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// closeGrace is how long Close lets commands finish that were sent before it.
const closeGrace = 500 * time.Millisecond

// Guard takes locks. Make one per process and Redis with New, and close it when done.
// Its methods may be called from many goroutines. A nil Guard, or a Guard that New did not
// make, takes none: work under it is ErrNoGuard.
type Guard struct {
	config
	store      guardstore.Store
	closeStore func() error
	instance   string
	bubble     bool // it was made in a testing/synctest bubble
	space      space
	oneRedis   bool // one server, to which commands go in common writes
	tasks      *task.Group
	cohorts    *cohort.Table
	outages    outages
	heartbeat  *heartbeat
	inside     *task.Gate    // acquisitions under way, and holds that have not ended
	abort      chan struct{} // closed when Close has waited long enough
	joined     chan struct{} // closed when Close is done
	closeErr   error         // read after joined
}

// New makes a Guard on one Redis: standalone, with Sentinel, or a cluster. It sends
// nothing; whether Redis answers shows at the first lock. Errors are OptionErrors.
//
// The client is a *redis.Client or a *redis.ClusterClient, by whichever function of go-redis
// it was made. Any other kind is refused, also a wrapper of these. A *redis.Ring takes a
// shard that hangs out of use, and the lock that is held there would be granted once more
// on another.
//
// The Guard makes two clients of its own (three with Replicas), so that user code cannot keep it from renewing; it
// uses no connection of the given client. They have these options of the given client: the addresses or Sentinel,
// Dialer, TLSConfig, OnConnect, user name, password and credentials providers, DB, Protocol, ClientName, identity,
// buffer sizes, PoolSize, ConnMaxIdleTime and ConnMaxLifetime; of a cluster client also NewClient, ClusterSlots and
// MaxRedirects. All other options do not hold: timeouts follow from StoreTimeout, and go-redis repeats no
// command. Hooks of the given client do not see the Guard's commands: see OnClient. A Dialer, an OnConnect and
// credentials providers must heed the context that they are given, which ends after half of StoreTimeout, or 1 s.
//
// A client does not work inside of a testing/synctest bubble, so New refuses it there. Use
// and close any Guard in the bubble in which it was made, or outside of bubbles if it was made
// outside; elsewhere, its methods return an OptionError.
func New(client redis.UniversalClient, opts ...Option) (*Guard, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	if err := checkOutside(); err != nil {
		return nil, err
	}
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if err := c.replicas.check(client, c); err != nil {
		return nil, err
	}
	store := redisstore.New(client, redisstore.Config{
		Prefix: cmp.Or(c.prefix, DefaultPrefix), AttemptTimeout: c.patience(),
		Replicas: redisconn.AckWait{N: c.replicas.n, Timeout: c.replicas.timeout}, OnClient: c.onClient,
	})
	g := newGuard(store, store.Close, c)
	g.space = spaceOf(client, cmp.Or(c.prefix, DefaultPrefix))
	_, g.oneRedis = client.(*redis.Client)
	return g, nil
}

// NewWithStore makes a Guard on any store that keeps the contract of package guardstore, such
// as one of package quorum. Errors are OptionErrors; Prefix and Replicas are for New.
//
// The store is yours: Close of the Guard leaves it open. Close it after the Guard, so that what
// the Guard gives back at its end still reaches it. Several Guards may use one store.
func NewWithStore(store guardstore.Store, opts ...Option) (*Guard, error) {
	if isNil(store) {
		return nil, &OptionError{"store", "is nil"}
	}
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	switch {
	case c.prefix != "":
		return nil, &OptionError{"Prefix", "is for New: this store names its keys by itself"}
	case c.replicas.n > 0:
		return nil, &OptionError{"Replicas", "is for New: it is about one Redis with replicas"}
	case c.onClients != nil:
		return nil, &OptionError{"OnClient", "is for New: this store has its own clients"}
	}
	g := newGuard(store, func() error { return nil }, c)
	g.space = spaceOfStore(store)
	return g, nil
}

// checkClient is for New.
func checkClient(client redis.UniversalClient) error {
	if isNil(client) {
		return &OptionError{"client", "is nil"}
	}
	if why := redisconn.Unfit(client, "New", "*redis.Client or *redis.ClusterClient"); why != "" {
		return &OptionError{"client", fmt.Sprintf("is a %T%s", client, why)}
	}
	return nil
}

// isNil returns whether v is nil, or an interface with a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

func newGuard(store guardstore.Store, closeStore func() error, c config) *Guard {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails, see crypto/rand
	g := &Guard{
		config: c, store: store, closeStore: closeStore,
		instance: hex.EncodeToString(id[:]),
		bubble:   clock.Now().InBubble(),
		tasks:    task.NewGroup(),
		inside:   task.NewGate(),
		abort:    make(chan struct{}),
		joined:   make(chan struct{}),
	}
	calls := &retry.Policy{Timeout: c.storeTimeout, AttemptTimeout: c.patience()}
	calls.OnFailure = func(ctx context.Context, op string, label retry.Label, err error) {
		g.observers.Event(ctx, Lock(label), Event{Kind: EventStoreFailure, Op: op, Err: err})
	}
	g.heartbeat = g.newHeartbeat()
	g.cohorts = cohort.New(cohort.Config{
		Store: store, Calls: calls, Tasks: g.tasks, Instance: g.instance, Handover: c.handover,
		Abort: g.abort, Awake: g.heartbeat.touch,
	})
	return g
}

// Shutdown takes no new work, except under a context that holds a lease of this Guard:
// callers, waiting ones included, get ErrClosed. It waits until every lease is released or
// lost, then closes. It does not wait for work that continues after its lock was lost. If ctx ends first, it closes
// at once and returns the error of ctx; a nil ctx does not end. On a nil or zero Guard there is nothing to do.
func (g *Guard) Shutdown(ctx context.Context) error { //nolint:contextcheck // a nil ctx has no parent
	switch err := g.usable(); {
	case errors.Is(err, ErrNoGuard):
		return nil
	case err != nil:
		return err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	g.inside.Drain()
	g.cohorts.Dismiss()
	select {
	case <-g.inside.Idle():
		return g.Close()
	case <-ctx.Done():
		_ = g.Close() // the end of ctx is what the caller has to know
		return ended(ctx)
	}
}

// Close ends everything: callers that wait get ErrClosed, leases end with a LostError
// whose cause is ErrClosed. Locks whose work still runs stay taken until the work
// returns or the ttl has run out. Commands on their way get half a second to finish. Then
// Close cuts them off, and waits until every goroutine of the Guard is gone. Only a dial may
// go on after that: go-redis's own over TLS, or to a sentinel, ends at the client's DialTimeout. The client stays open. Close may be called more than once, and on a nil or
// zero Guard.
func (g *Guard) Close() error {
	switch err := g.usable(); {
	case errors.Is(err, ErrNoGuard):
		return nil
	case err != nil:
		return err
	}
	if g.inside.Close() {
		g.cohorts.Dismiss()
		g.cohorts.Close(ErrClosed)
		g.tasks.WaitIdle(closeGrace)
		close(g.abort)
		idle := g.tasks.Close()
		g.closeErr = g.closeStore()
		<-idle
		close(g.joined)
	}
	<-g.joined
	return g.closeErr
}
