package main

import "context"

// service pays orders. It checks and then acts, as most code does: on its own it is
// right only as long as nobody else works on the same order, or the same stock.
type service struct {
	books   *books
	gateway *gateway
	locks   locks
}

// payment says what became of an attempt to pay an order.
type payment struct {
	Order  string `json:"order"`
	Status string `json:"status"`
}

// The statuses of a payment.
const (
	statusOpen        = "open"
	statusPaid        = "paid"
	statusAlreadyPaid = "already paid"
	statusQueued      = "queued"
)

// pay charges the order and takes one piece off the stock, or does what is left of that
// since an attempt that failed halfway. Callers hold the order's lock.
func (s *service) pay(ctx context.Context, order string) (payment, error) {
	o, err := s.books.order(order)
	if err != nil {
		return payment{}, err
	}
	p := payment{order, statusAlreadyPaid}
	if !o.paid {
		if err := s.gateway.charge(ctx, order); err != nil {
			return payment{}, err
		}
		s.books.markPaid(order)
		p.Status = statusPaid
	}
	if !o.shipped {
		err = s.ship(ctx, order)
	}
	return p, err
}

// ship takes one piece off the stock: a second lock, nested in the order's.
func (s *service) ship(ctx context.Context, order string) error {
	sku := skuOf(order)
	return s.locks.stock(ctx, sku, func(ctx context.Context) error {
		left, err := s.books.countStock(ctx, sku)
		if err != nil {
			return err
		}
		s.books.ship(order, sku, left-1)
		return nil
	})
}

// status tells what is known about the order, without a lock.
func (s *service) status(order string) (payment, error) {
	o, err := s.books.order(order)
	if err != nil {
		return payment{}, err
	}
	if o.paid {
		return payment{order, statusPaid}, nil
	}
	return payment{order, statusOpen}, nil
}
