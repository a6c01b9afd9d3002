package task

import "sync"

// Gate counts the work inside and refuses work once it drains or is closed. Its methods may be called from many goroutines.
type Gate struct {
	draining chan struct{}
	closed   chan struct{}

	mu     sync.Mutex
	inside int
	idle   chan struct{} // closed when no work is inside; nil = no goroutine waits for that
}

// NewGate makes an open Gate.
func NewGate() *Gate {
	return &Gate{draining: make(chan struct{}), closed: make(chan struct{})}
}

// Enter counts a piece of work in, which Leave counts out, unless the Gate is closed to it.
// nested is work that belongs to work inside. stop is closed when it has to stop waiting.
func (g *Gate) Enter(nested bool) (stop <-chan struct{}, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	stop = g.draining
	if nested {
		stop = g.closed
	}
	if IsClosed(stop) {
		return nil, false
	}
	g.inside++
	return stop, true
}

// Leave counts a piece of work out.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Drain closes the Gate to new work.
func (g *Gate) Drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drain()
}

func (g *Gate) drain() {
	if !IsClosed(g.draining) {
		close(g.draining)
	}
}

// Close closes the Gate to all work. Only one call is the first.
func (g *Gate) Close() (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if IsClosed(g.closed) {
		return false
	}
	close(g.closed)
	g.drain()
	return true
}

// Draining is closed once the Gate drains, or is closed.
func (g *Gate) Draining() <-chan struct{} { return g.draining }

// Closed is closed once the Gate is.
func (g *Gate) Closed() <-chan struct{} { return g.closed }

// Idle returns a channel that is closed when no work is inside.
func (g *Gate) Idle() <-chan struct{} {
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
