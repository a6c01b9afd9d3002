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

// books stands for the database: each call is atomic, two calls in a row are not.
type books struct {
	mu     sync.Mutex // protects what follows
	orders map[string]order
	stock  map[string]int
}

// order is what the books know of an order.
type order struct{ paid, shipped bool }

// newBooks has the unpaid orders "1" to n.
func newBooks(n int) *books {
	b := &books{orders: make(map[string]order, n), stock: make(map[string]int, skus)}
	for i := range n {
		b.orders[strconv.Itoa(i+1)] = order{}
	}
	for i := range skus {
		b.stock[sku(i)] = initialStock
	}
	return b
}

func sku(i int) string { return "sku-" + strconv.Itoa(i+1) }

// skuOf is what was ordered.
func skuOf(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return sku(int(h.Sum32() % skus))
}

func (b *books) order(id string) (order, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.orders[id]
	if !ok {
		return order{}, errNoOrder
	}
	return o, nil
}

func (b *books) markPaid(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.orders[id]
	o.paid = true
	b.orders[id] = o
}

// countStock takes a moment, in which the stock may change.
func (b *books) countStock(ctx context.Context, sku string) (int, error) {
	b.mu.Lock()
	n := b.stock[sku]
	b.mu.Unlock()
	return n, pause(ctx, countLatency)
}

// ship marks the order as shipped, and sets what is left of the stock: a transaction.
func (b *books) ship(id, sku string, left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.orders[id]
	o.shipped = true
	b.orders[id] = o
	b.stock[sku] = left
}

// shipped is how many pieces are missing from the stock.
func (b *books) shipped() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, left := range b.stock {
		n += initialStock - left
	}
	return n
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
