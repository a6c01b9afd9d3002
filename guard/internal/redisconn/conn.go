package redisconn

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// conn is a way to Redis that one caller at a time has for itself. go-redis interrupts no
// call when a context ends; but a conn has a client of its own, of one connection, which
// can be closed under it. So a caller can run its command itself, without the cost of
// another goroutine, and still leave at once: that ends the conn.
type conn struct {
	client      redis.UniversalClient
	shared      bool          // it has many connections, and cannot be interrupted
	interrupted chan struct{} // closed when it was interrupted, or its time was up
	timer       *time.Timer   // of the deadline; nil = none was needed yet

	mu  sync.Mutex
	net net.Conn // the latest
}

// newConn makes a conn with options that nobody else has.
func newConn(o *redis.Options, s *server) *conn {
	c := &conn{interrupted: make(chan struct{})}
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			c.dialled(conn)
		}
		return conn, err
	}
	client := redis.NewClient(o)
	s.watch(client)
	c.client = client
	return c
}

func (c *conn) dialled(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.net = conn
	if task.IsClosed(c.interrupted) {
		_ = conn.Close()
	}
}

// interrupt ends what is under way, for a caller that leaves: a read, a write, or the wait for a
// dial.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	if c.net != nil {
		_ = c.net.Close()
	}
}

// expire is for a deadline, which a read or a write heeds by itself: it ends the wait for a dial.
func (c *conn) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
}

// end needs c.mu.
func (c *conn) end() {
	if !task.IsClosed(c.interrupted) {
		close(c.interrupted)
	}
}

// do sends a command for a caller that leaves at the end of ctx: interrupted says that it did,
// and that the conn is of no use any more.
func (c *conn) do(ctx context.Context, cmd Command) (reply any, interrupted bool, err error) {
	leave := clock.Caller(ctx)
	stay := func() bool { return true }
	if leave.Done() != nil {
		stay = context.AfterFunc(leave, c.interrupt)
	}
	deadline, ends := ctx.Deadline()
	if ends {
		c.expireAt(deadline)
	}
	reply, err = roundTrip(leavingCtx{ctx, c.interrupted}, cmd, c.client) //nolint:contextcheck // it is ctx, and ends sooner
	inTime := !ends || c.timer.Stop()
	if stay() && inTime {
		return reply, false, err
	}
	<-c.interrupted
	// Where time was up, the error of a dial says more than the context's.
	if err != nil && ctx.Err() != nil && (leave.Err() != nil || errors.Is(err, context.Canceled)) {
		err = ctx.Err()
	}
	return reply, true, err
}

// expireLate is for how long after its deadline a dial that heeds it is still waited for: its
// error says more than that time was up.
const expireLate = 10 * time.Millisecond

// expireAt keeps one timer for all deadlines.
func (c *conn) expireAt(deadline time.Time) {
	left := time.Until(deadline) + expireLate
	if c.timer == nil {
		c.timer = time.AfterFunc(left, c.expire)
		return
	}
	c.timer.Reset(left)
}

// leavingCtx is a context that ends with a conn, or with a client, too.
type leavingCtx struct {
	context.Context //nolint:containedctx // it is one
	interrupted     <-chan struct{}
}

// Done implements context.Context.
func (l leavingCtx) Done() <-chan struct{} { return l.interrupted }

// Err implements context.Context.
func (l leavingCtx) Err() error {
	if task.IsClosed(l.interrupted) {
		return context.Canceled
	}
	return l.Context.Err()
}

// pool has the conns to one server, or one for all if they cannot be interrupted. They are made
// as they are needed.
type pool struct {
	open   func() *conn
	shared *conn

	mu     sync.Mutex
	idle   []*conn
	all    map[*conn]struct{}
	closed bool
}

func newPool(client redis.UniversalClient, b bounds, s *server) *pool {
	single, ok := client.(*redis.Client)
	if !ok {
		return sharedPool(dedicatedClient(client, b, nil, s))
	}
	open := func() *conn { return newConn(dedicatedOptions(*single.Options(), b, &oneConn, s), s) }
	return &pool{open: open, all: make(map[*conn]struct{})}
}

func sharedPool(client redis.UniversalClient) *pool {
	return &pool{shared: &conn{client: client, shared: true}}
}

// get takes the conn that was used last, so that those which are not needed grow old.
func (p *pool) get() *conn {
	if p.shared != nil {
		return p.shared
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c
	}
	p.mu.Unlock()
	c := p.open()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.client.Close()
	} else {
		p.all[c] = struct{}{}
	}
	return c
}

// put gives a conn back; nil is none.
func (p *pool) put(c *conn) {
	if c == nil || c.shared {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

// discard closes a conn that was interrupted.
func (p *pool) discard(c *conn) {
	p.mu.Lock()
	delete(p.all, c)
	p.mu.Unlock()
	_ = c.client.Close()
}

// close ends all conns, and the calls on them.
func (p *pool) close() (err error) {
	if p.shared != nil {
		return p.shared.client.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.all {
		err = errors.Join(err, c.client.Close())
	}
	clear(p.all)
	return err
}
