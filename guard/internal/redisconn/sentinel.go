package redisconn

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

const (
	// failoverAddr is the address in the options of a client by NewFailoverClient. Its dialer asks Sentinel
	// each time. Only the user's client is told by go-redis of a failover.
	failoverAddr = "FailoverClient"

	checkInterval = time.Second
	checkWait     = 250 * time.Millisecond
)

// primary closes connections to a primary that Sentinel replaced: the server may be alive, and believe for
// some seconds that it still is the primary. While commands are sent, Sentinel is asked once a second, by
// dialling. Without Sentinel, a primary is nil.
type primary struct {
	dial dialFunc // as the user's client dials

	checked  atomic.Int64 // the instant
	checking atomic.Bool

	mu    sync.Mutex
	addr  string // of the primary
	conns map[*primaryConn]struct{}
}

// primaryOf is nil for a client that asks no Sentinel.
func primaryOf(user redis.UniversalClient) *primary {
	client, single := user.(*redis.Client)
	if !single || client.Options().Addr != failoverAddr {
		return nil
	}
	p := &primary{conns: make(map[*primaryConn]struct{})}
	p.dial = p.dialer(client.Options().Dialer)
	return p
}

// dialer notes where connections lead.
func (p *primary) dialer(dial dialFunc) dialFunc {
	if p == nil {
		return dial
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return p.accept(conn), nil
	}
}

// accept takes in a connection, and closes those that lead elsewhere. A slow dial may bring one to the former
// primary; the next check finds that.
func (p *primary) accept(conn net.Conn) net.Conn {
	c, addr := &primaryConn{conn, p}, conn.RemoteAddr().String()
	p.mu.Lock()
	defer p.mu.Unlock()
	if addr != p.addr {
		for other := range p.conns {
			_ = other.Conn.Close() // go-redis notices when it uses it
		}
		clear(p.conns)
		p.addr = addr
	}
	p.conns[c] = struct{}{}
	p.checked.Store(int64(clock.Now()))
	if raw, ok := conn.(syscall.Conn); ok { // go-redis looks at that before it uses an idle connection
		return struct {
			*primaryConn
			syscall.Conn
		}{c, raw}
	}
	return c
}

// server is the address of the primary, or what go-redis calls it before that is known.
func (p *primary) server() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.addr == "" {
		return failoverAddr
	}
	return p.addr
}

// primaryConn is a connection to what was the primary when it was dialled.
type primaryConn struct {
	net.Conn

	primary *primary
}

// Close implements net.Conn.
func (c *primaryConn) Close() error {
	c.primary.mu.Lock()
	delete(c.primary.conns, c)
	c.primary.mu.Unlock()
	return c.Conn.Close()
}

// check asks which server is the primary, if the last answer is old. It does not wait for long: connections
// that work are of use while no sentinel answers.
func (p *primary) check(ctx context.Context) {
	if p == nil || clock.Now() < clock.Instant(p.checked.Load()).Add(checkInterval) || !p.checking.CompareAndSwap(false, true) {
		return
	}
	asked := make(chan struct{})
	ask := func() { //nolint:contextcheck // it outlives the caller
		defer p.checking.Store(false)
		defer close(asked)
		// go-redis asks another sentinel when one hangs, but only if the context has not ended by then.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if conn, err := p.dial(ctx, "tcp", failoverAddr); err == nil {
			_ = conn.Close()
		}
		p.checked.Store(int64(clock.Now()))
	}
	go ask() // it ends by the timeouts of the user's client
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
