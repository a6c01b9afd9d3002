package main

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"sync"
	"time"
)

const (
	skus         = 4       // fewer than orders, so that different orders contend for a stock
	initialStock = 100_000 // of each
	countLatency = time.Millisecond
)

var errNoOrder = errors.New("no such order")

// shop stands for the database and for the payment provider. Each access to its fields is
// atomic, two in a row are not. The charges are the witness of this program: the code that
// charges does not read them.
type shop struct {
	latency time.Duration // of a charge
	locks   locks

	mu      sync.Mutex // protects what follows
	stock   map[string]int
	charges map[string]int // by order
}

// newShop has the unpaid orders "1" to n.
func newShop(n int, latency time.Duration, locks locks) *shop {
	s := &shop{latency: latency, locks: locks, stock: map[string]int{}, charges: map[string]int{}}
	for i := range n {
		s.charges[strconv.Itoa(i+1)] = 0
	}
	for i := range skus {
		s.stock[strconv.Itoa(i)] = initialStock
	}
	return s
}

// payment is the result of an attempt to pay an order.
type payment struct {
	Order  string `json:"order"`
	Status string `json:"status"` // open, paid, already paid or queued
}

// pay charges the order and takes one piece off the stock. It does not check whether the order
// is paid: each step runs once, and a later call gets its result.
func (s *shop) pay(ctx context.Context, id string) (payment, error) {
	if _, err := s.status(id); err != nil {
		return payment{}, err
	}
	p, replayed, err := s.locks.once(ctx, "charge", id, func(ctx context.Context) (payment, error) {
		if err := pause(ctx, s.latency); err != nil {
			return payment{}, err
		}
		s.do(func() { s.charges[id]++ })
		return payment{id, "paid"}, nil
	})
	if err != nil {
		return payment{}, err
	}
	if replayed {
		p.Status = "already paid"
	}
	_, _, err = s.locks.once(ctx, "ship", id, func(ctx context.Context) (payment, error) { return p, s.ship(ctx, id) })
	return p, err
}

// ship takes one piece off the stock, which different orders share: another lock, inside.
func (s *shop) ship(ctx context.Context, id string) error {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	sku := strconv.Itoa(int(h.Sum32() % skus))
	return s.locks.stock(ctx, sku, func(ctx context.Context) error {
		var left int
		s.do(func() { left = s.stock[sku] })
		if err := pause(ctx, countLatency); err != nil { // in which the stock may change
			return err
		}
		s.do(func() { s.stock[sku] = left - 1 })
		return nil
	})
}

// status returns the state of the order, without a lock.
func (s *shop) status(id string) (payment, error) {
	var charges int
	var known bool
	s.do(func() { charges, known = s.charges[id] })
	switch {
	case !known:
		return payment{}, errNoOrder
	case charges > 0:
		return payment{id, "paid"}, nil
	}
	return payment{id, "open"}, nil
}

// do is one access.
func (s *shop) do(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// pause stands for a round trip. It fails if ctx has ended, also before the pause: a caller
// that has left gets no work done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return ctx.Err()
	}
}
