package redisconn

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

const (
	// failoverAddr is the address in the options of a client by NewFailoverClient. Its
	// dialer asks Sentinel each time; what a failover does to the connections that there
	// are is known to that client alone, and not to a copy.
	failoverAddr = "FailoverClient"

	checkInterval = time.Second
	checkWait     = 250 * time.Millisecond
)

// primary ends the connections to one that was replaced: it may be alive, and believe for
// some seconds that it still is the primary. While commands are sent, Sentinel is asked
// once a second, by dialling.
type primary struct {
	dial  dialFunc // set once; it fails when the store is closed
	tasks *task.Group

	checked  atomic.Int64 // the instant
	checking atomic.Bool

	mu     sync.Mutex
	dials  uint64
	latest uint64 // of the dials that succeeded, the one that began last
	addr   string // where that led
	conns  map[*primaryConn]struct{}
}

var _ redis.Hook = (*primary)(nil)

// primaryConn is a connection to what was the primary when it was dialled.
type primaryConn struct {
	*trackedConn
	primary *primary
}

func newPrimary(background *task.Group) *primary {
	return &primary{tasks: background, conns: make(map[*primaryConn]struct{})}
}

var errReplaced = errors.New("the primary was replaced")

func (p *primary) dialer(next dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		p.mu.Lock()
		p.dials++
		dial := p.dials
		p.mu.Unlock()
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &primaryConn{conn.(*trackedConn), p}
		if !p.accept(c, dial) {
			_ = conn.Close()
			return nil, errReplaced
		}
		return c, nil
	}
}

// accept takes in a connection, unless a dial that began later found another primary.
func (p *primary) accept(c *primaryConn, dial uint64) bool {
	addr := c.RemoteAddr().String()
	p.mu.Lock()
	defer p.mu.Unlock()
	if addr != p.addr {
		if dial < p.latest {
			return false
		}
		p.addr = addr
		for other := range p.conns {
			_ = other.trackedConn.Close() // go-redis finds out when it uses it
		}
		clear(p.conns)
	}
	p.latest = max(p.latest, dial)
	p.conns[c] = struct{}{}
	p.checked.Store(int64(clock.Now()))
	return true
}

// Close implements net.Conn.
func (c *primaryConn) Close() error {
	c.primary.mu.Lock()
	delete(c.primary.conns, c)
	c.primary.mu.Unlock()
	return c.trackedConn.Close()
}

// DialHook implements redis.Hook.
func (*primary) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (p *primary) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.check(ctx)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (p *primary) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.check(ctx)
		return next(ctx, cmds)
	}
}

// check asks which server is the primary, if the last answer is old. It does not wait for long:
// connections that work are of use even while no sentinel answers.
func (p *primary) check(ctx context.Context) {
	if clock.Now() < clock.Instant(p.checked.Load()).Add(checkInterval) || !p.checking.CompareAndSwap(false, true) {
		return
	}
	asked := make(chan struct{})
	ask := func() { //nolint:contextcheck // it goes on without the caller
		defer p.checking.Store(false)
		defer close(asked)
		// go-redis goes on to another sentinel when one hangs, after some timeouts of its
		// own, but only if the context has not ended by then.
		if conn, err := p.dial(context.Background(), "tcp", failoverAddr); err == nil {
			_ = conn.Close()
		}
		p.checked.Store(int64(clock.Now()))
	}
	if !p.tasks.Go(ask) {
		return // closed
	}
	wait := checkWait
	if deadline, ends := ctx.Deadline(); ends {
		wait = min(wait, time.Until(deadline)/2) // the command is yet to be sent
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-asked:
	case <-timer.C:
	case <-ctx.Done():
	}
}
