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
	l := &conn{interrupted: make(chan struct{})}
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			l.dialled(conn)
		}
		return conn, err
	}
	client := redis.NewClient(o)
	s.watch(client)
	l.client = client
	return l
}

func (l *conn) dialled(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.net = conn
	if task.IsClosed(l.interrupted) {
		_ = conn.Close()
	}
}

// interrupt ends what is under way, for a caller that leaves: a read, a write, or the wait for a
// dial.
func (l *conn) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
	if l.net != nil {
		_ = l.net.Close()
	}
}

// expire is for a deadline, which a read or a write heeds by itself: it ends the wait for a dial.
func (l *conn) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// end needs l.mu.
func (l *conn) end() {
	if !task.IsClosed(l.interrupted) {
		close(l.interrupted)
	}
}

// do sends a command for a caller that leaves at the end of ctx: interrupted says that it did,
// and that the conn is of no use any more.
func (l *conn) do(ctx context.Context, cmd Command) (reply any, interrupted bool, err error) {
	leave := clock.Caller(ctx)
	stay := func() bool { return true }
	if leave.Done() != nil {
		stay = context.AfterFunc(leave, l.interrupt)
	}
	deadline, ends := ctx.Deadline()
	if ends {
		l.expireAt(deadline)
	}
	reply, err = roundTrip(leavingCtx{ctx, l.interrupted}, cmd, l.client) //nolint:contextcheck // it is ctx, and ends sooner
	inTime := !ends || l.timer.Stop()
	if stay() && inTime {
		return reply, false, err
	}
	<-l.interrupted
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
func (l *conn) expireAt(deadline time.Time) {
	left := time.Until(deadline) + expireLate
	if l.timer == nil {
		l.timer = time.AfterFunc(left, l.expire)
		return
	}
	l.timer.Reset(left)
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
func (ls *pool) get() *conn {
	if ls.shared != nil {
		return ls.shared
	}
	ls.mu.Lock()
	if n := len(ls.idle); n > 0 {
		l := ls.idle[n-1]
		ls.idle = ls.idle[:n-1]
		ls.mu.Unlock()
		return l
	}
	ls.mu.Unlock()
	l := ls.open()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		_ = l.client.Close()
	} else {
		ls.all[l] = struct{}{}
	}
	return l
}

// put gives a conn back; nil is none.
func (ls *pool) put(l *conn) {
	if l == nil || l.shared {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.idle = append(ls.idle, l)
}

// discard closes a conn that was interrupted.
func (ls *pool) discard(l *conn) {
	ls.mu.Lock()
	delete(ls.all, l)
	ls.mu.Unlock()
	_ = l.client.Close()
}

// close ends all conns, and the calls on them.
func (ls *pool) close() (err error) {
	if ls.shared != nil {
		return ls.shared.client.Close()
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closed = true
	for l := range ls.all {
		err = errors.Join(err, l.client.Close())
	}
	clear(ls.all)
	return err
}
