package guard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// lane is a way to Redis that one caller at a time has for itself. go-redis interrupts no
// call when a context ends, but does when its client is closed; so a lane has a client of
// its own, of one connection. A caller can run its command itself, without the cost of
// another goroutine, and still leave at once: that ends the lane.
type lane struct {
	client redis.UniversalClient
	cut    func()        // nil on one that is shared, which cannot be cut
	gone   chan struct{} // closed by cut
}

var errLeft = errors.New("the caller left")

func newLane(client redis.UniversalClient) *lane {
	l := &lane{client: client, gone: make(chan struct{})}
	l.cut = sync.OnceFunc(func() {
		close(l.gone) // it may be about to dial
		_ = client.Close()
	})
	return l
}

// process sends a command for a caller that leaves at the end of leave: cut says that it
// did, and that the lane is of no use any more.
func (l *lane) process(ctx, leave context.Context, cmd redis.Cmder) (cut bool, err error) {
	stay := context.AfterFunc(leave, l.cut)
	err = l.client.Process(leaving{ctx, l.gone}, cmd)
	cut = !stay()
	if cut && err != nil {
		err = errLeft
	}
	return cut, err
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
	select {
	case <-l.gone:
		return context.Canceled
	default:
		return l.Context.Err()
	}
}

// lanes are the lanes to one server, or one for all if they cannot be cut. They are made
// as they are needed.
type lanes struct {
	open   func() redis.UniversalClient
	shared *lane

	mu     sync.Mutex
	idle   []*lane
	all    map[*lane]struct{}
	closed bool
}

func newLanes(client redis.UniversalClient, timeout time.Duration, common *suspicion) *lanes {
	if _, single := client.(*redis.Client); !single {
		return sharedLane(privateClient(client, timeout, nil, common))
	}
	open := func() redis.UniversalClient { return privateClient(client, timeout, &lanePool, common) }
	return &lanes{open: open, all: make(map[*lane]struct{})}
}

func sharedLane(client redis.UniversalClient) *lanes {
	return &lanes{shared: &lane{client: client}}
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
	l := newLane(ls.open())
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		l.cut()
	} else {
		ls.all[l] = struct{}{}
	}
	return l
}

// put gives a lane back; nil is none.
func (ls *lanes) put(l *lane) {
	if l == nil || l == ls.shared {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.idle = append(ls.idle, l)
}

// drop forgets a lane that was cut.
func (ls *lanes) drop(l *lane) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.all, l)
}

// close ends all lanes, and the calls on them.
func (ls *lanes) close() error {
	if ls.shared != nil {
		return ls.shared.client.Close()
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closed = true
	for l := range ls.all {
		l.cut()
	}
	clear(ls.all)
	return nil
}
