package guard

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// lane is a way to Redis that one caller at a time has for itself. go-redis interrupts no
// call when a context ends; but a lane has a client of its own, of one connection, which
// can be closed under it. So a caller can run its command itself, without the cost of
// another goroutine, and still leave at once: that ends the lane.
type lane struct {
	client redis.UniversalClient
	shared bool          // it has many connections, and cannot be cut
	gone   chan struct{} // closed when it was cut

	mu   sync.Mutex
	conn net.Conn // the latest
}

var errLeft = errors.New("the caller left")

// newLane makes a lane with options that nobody else has.
func newLane(o *redis.Options, common *suspicion) *lane {
	l := &lane{gone: make(chan struct{})}
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			l.admit(conn)
		}
		return conn, err
	}
	client := redis.NewClient(o)
	client.AddHook(common)
	l.client = client
	return l
}

func (l *lane) admit(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	if task.IsClosed(l.gone) {
		_ = conn.Close()
	}
}

// cut ends what is under way: a read, a write, or the wait for a dial.
func (l *lane) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.gone)
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// run sends a command for a caller that leaves at the end of leave: cut says that it did,
// and that the lane is of no use any more.
func (l *lane) run(ctx, leave context.Context, c command) (reply any, cut bool, err error) {
	stay := context.AfterFunc(leave, l.cut)
	reply, err = run(leaving{ctx, l.gone}, c, l.client) //nolint:contextcheck // it is ctx, and ends sooner
	if stay() {
		return reply, false, err
	}
	<-l.gone
	if err != nil {
		err = errLeft
	}
	return reply, true, err
}

// leaving is a context that ends with a lane, too.
type leaving struct {
	context.Context //nolint:containedctx // it is one
	gone            <-chan struct{}
}

// Done implements context.Context.
func (l leaving) Done() <-chan struct{} { return l.gone }

// Err implements context.Context.
func (l leaving) Err() error {
	if task.IsClosed(l.gone) {
		return context.Canceled
	}
	return l.Context.Err()
}

// lanes are the lanes to one server, or one for all if they cannot be cut. They are made
// as they are needed.
type lanes struct {
	open   func() *lane
	shared *lane

	mu     sync.Mutex
	idle   []*lane
	all    map[*lane]struct{}
	closed bool
}

func newLanes(client redis.UniversalClient, b bounds, common *suspicion) *lanes {
	single, ok := client.(*redis.Client)
	if !ok {
		return sharedLane(privateClient(client, b, nil, common))
	}
	open := func() *lane { return newLane(privateOptions(*single.Options(), b, &lanePool), common) }
	return &lanes{open: open, all: make(map[*lane]struct{})}
}

func sharedLane(client redis.UniversalClient) *lanes {
	return &lanes{shared: &lane{client: client, shared: true}}
}

// get takes the lane that was used last, so that those which are not needed grow old.
func (ls *lanes) get() *lane {
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

// put gives a lane back; nil is none.
func (ls *lanes) put(l *lane) {
	if l == nil || l.shared {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.idle = append(ls.idle, l)
}

// drop closes a lane that was cut.
func (ls *lanes) drop(l *lane) {
	ls.mu.Lock()
	delete(ls.all, l)
	ls.mu.Unlock()
	_ = l.client.Close()
}

// close ends all lanes, and the calls on them.
func (ls *lanes) close() (err error) {
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
