package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// report is what came of a burst, by the gateway's account.
type report struct {
	Orders        int   `json:"orders"`
	Attempts      int64 `json:"attempts"`
	Paid          int   `json:"paid"`           // orders that were charged
	Busy          int64 `json:"busy"`           // answers that somebody else works on the order
	DoubleCharges int   `json:"double_charges"` // charges beyond the first of an order
	StockDrift    int   `json:"stock_drift"`    // pieces that were charged and not taken off the stock

	failures int
	failure  error
	locks    []lockTime
}

func (b *burst) report() report {
	a := b.app
	paid, charges := a.service.gateway.counts()
	r := report{
		Orders:        a.opts.orders,
		Attempts:      a.tally.attempts.Load(),
		Paid:          paid,
		Busy:          a.tally.busy.Load(),
		DoubleCharges: charges - paid,
		StockDrift:    charges - a.service.books.shipped(),
		locks:         a.times.summary(),
	}
	r.failures, r.failure = a.tally.failed()
	return r
}

// verdict is nil if every order was charged exactly once and nothing else went wrong.
func (r report) verdict() error {
	var errs []error
	if r.Paid < r.Orders {
		errs = append(errs, fmt.Errorf("%d orders were not charged", r.Orders-r.Paid))
	}
	if r.DoubleCharges > 0 {
		errs = append(errs, fmt.Errorf("%d charges too many", r.DoubleCharges))
	}
	if r.StockDrift != 0 {
		errs = append(errs, fmt.Errorf("the stock is off by %d", r.StockDrift))
	}
	if r.failures > 0 {
		errs = append(errs, fmt.Errorf("%d answers were errors, the first: %w", r.failures, r.failure))
	}
	return errors.Join(errs...)
}

func (r report) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

func (r report) writeTable(w io.Writer) error {
	var b strings.Builder
	say(&b, "orders          %8d\n", r.Orders)
	say(&b, "attempts        %8d  requests to echo and to net/http, and tasks\n", r.Attempts)
	say(&b, "paid            %8d\n", r.Paid)
	say(&b, "answered busy   %8d\n", r.Busy)
	say(&b, "double charges  %8d\n", r.DoubleCharges)
	say(&b, "stock drift     %8d\n", r.StockDrift)
	if len(r.locks) > 0 {
		r.addLocks(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r report) addLocks(b *strings.Builder) {
	width := len("lock")
	for _, l := range r.locks {
		width = max(width, len(l.name))
	}
	const row = "%-*s%8v%11s%11s%11s%11s\n"
	say(b, "\n"+row, width, "lock", "holds", "wait p50", "wait p99", "hold p50", "hold p99")
	for _, l := range r.locks {
		say(b, row, width, l.name, l.holds, ms(l.waitP50), ms(l.waitP99), ms(l.holdP50), ms(l.holdP99))
	}
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
