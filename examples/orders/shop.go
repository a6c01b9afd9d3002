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
// atomic, two in a row are not. What was charged is the witness of this program: nothing that
// charges looks at it.
type shop struct {
	latency time.Duration // of a charge
	locks   locks

	mu      sync.Mutex // protects what follows
	orders  map[string]order
	stock   map[string]int
	charges map[string]int // by order
}

type order struct{ paid, shipped bool }

// newShop has the unpaid orders "1" to n.
func newShop(n int, latency time.Duration, locks locks) *shop {
	s := &shop{latency: latency, locks: locks, orders: map[string]order{}, stock: map[string]int{}, charges: map[string]int{}}
	for i := range n {
		s.orders[strconv.Itoa(i+1)] = order{}
	}
	for i := range skus {
		s.stock[strconv.Itoa(i)] = initialStock
	}
	return s
}

// payment says what became of an attempt to pay an order.
type payment struct {
	Order  string `json:"order"`
	Status string `json:"status"` // open, paid, already paid or queued
}

// pay charges the order and takes one piece off the stock, or does what is left of that
// since an attempt that failed halfway. It checks and then acts, as most code does: it is
// right only as long as nobody else works on the order. Callers hold the order's lock.
func (s *shop) pay(ctx context.Context, id string) (payment, error) {
	o, err := s.order(id)
	if err != nil {
		return payment{}, err
	}
	p := payment{id, "already paid"}
	if !o.paid {
		if err := pause(ctx, s.latency); err != nil {
			return payment{}, err
		}
		s.do(func() { s.charges[id]++; s.orders[id] = order{paid: true} })
		p.Status = "paid"
	}
	if !o.shipped {
		err = s.ship(ctx, id)
	}
	return p, err
}

// ship takes one piece off the stock: a second lock, nested in the order's.
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
		s.do(func() { s.stock[sku] = left - 1; s.orders[id] = order{paid: true, shipped: true} })
		return nil
	})
}

// status tells what is known about the order, without a lock.
func (s *shop) status(id string) (payment, error) {
	o, err := s.order(id)
	if o.paid {
		return payment{id, "paid"}, err
	}
	return payment{id, "open"}, err
}

func (s *shop) order(id string) (o order, err error) {
	s.do(func() {
		var known bool
		if o, known = s.orders[id]; !known {
			err = errNoOrder
		}
	})
	return o, err
}

// do is one access.
func (s *shop) do(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// pause stands for a round trip to somewhere. It ends with ctx, also when ctx was over
// before: nothing that a caller does not want any more gets done.
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
