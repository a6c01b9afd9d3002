package drain

import (
	"sync"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// Group is open when New made it. Its methods may be called from many goroutines.
type Group struct {
	draining chan struct{}
	closed   chan struct{}

	mu     sync.Mutex
	inside int
	idle   chan struct{} // closed when nobody is inside; nil = nobody waits for that
}

// New makes an open Group.
func New() *Group {
	return &Group{draining: make(chan struct{}), closed: make(chan struct{})}
}

// Enter counts a piece of work in, which Leave counts out, unless the Group is closed to it.
// nested is work that belongs to work inside. stop is closed when it has to stop waiting.
func (g *Group) Enter(nested bool) (stop <-chan struct{}, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	stop = g.draining
	if nested {
		stop = g.closed
	}
	if task.IsClosed(stop) {
		return nil, false
	}
	g.inside++
	return stop, true
}

// Leave counts a piece of work out.
func (g *Group) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Drain closes the Group to new work.
func (g *Group) Drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drain()
}

func (g *Group) drain() {
	if !task.IsClosed(g.draining) {
		close(g.draining)
	}
}

// Close closes the Group to all work. Only one call is the first.
func (g *Group) Close() (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if task.IsClosed(g.closed) {
		return false
	}
	close(g.closed)
	g.drain()
	return true
}

// Draining is closed once the Group drains, or is closed.
func (g *Group) Draining() <-chan struct{} { return g.draining }

// Closed is closed once the Group is.
func (g *Group) Closed() <-chan struct{} { return g.closed }

// Idle returns a channel that is closed when nobody is inside.
func (g *Group) Idle() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle != nil {
		return g.idle
	}
	idle := make(chan struct{})
	if g.inside == 0 {
		close(idle)
	} else {
		g.idle = idle
	}
	return idle
}
