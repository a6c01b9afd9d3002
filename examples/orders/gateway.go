package main

import (
	"context"
	"sync"
	"time"
)

// gateway stands for the payment provider, and is the witness of this program: it
// knows nothing of locks or of books, does as it is told after a moment, and remembers
// what it did.
type gateway struct {
	latency time.Duration

	mu      sync.Mutex     // protects what follows
	charges map[string]int // by order
	total   int
}

func newGateway(latency time.Duration) *gateway {
	return &gateway{latency: latency, charges: make(map[string]int)}
}

// charge takes the money, unless ctx ends first.
func (g *gateway) charge(ctx context.Context, order string) error {
	if err := pause(ctx, g.latency); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.charges[order]++
	g.total++
	return nil
}

// counts gives how many orders were charged, and how many charges there were.
func (g *gateway) counts() (orders, charges int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.charges), g.total
}
