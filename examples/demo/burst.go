package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
)

// mostTime bounds a burst. A burst that takes longer hangs.
const mostTime = 2 * time.Minute

// The routes take turns, so that all ways to pay an order meet. A charge is answered before
// the order is paid, by a task.
var routes = [...]string{"/orders/%d/pay", "/orders/%d/charge", "/admin/orders/%d/settle", "/orders/%d/pay"}

// tally counts how the attempts to pay end.
type tally struct {
	busy      atomic.Int64  // answers that another caller works on the order
	tasksDone chan struct{} // gets one for each task that ended

	mu     sync.Mutex // protects failed
	failed []error    // answers that should not occur
}

func newTally(o options) *tally {
	return &tally{tasksDone: make(chan struct{}, o.orders*o.attempts)}
}

func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = append(t.failed, err)
}

// taskRan counts how a run of a task ended. asynq repeats a task that failed, unless its
// error is asynq.SkipRetry.
func (t *tally) taskRan(err error) {
	switch {
	case errors.Is(err, guard.ErrBusy):
		t.busy.Add(1)
		return
	case errors.Is(err, guard.ErrStore):
		return // nothing was done: as good as busy
	case err != nil:
		t.fail(err)
		if !errors.Is(err, asynq.SkipRetry) {
			return
		}
	}
	select {
	case t.tasksDone <- struct{}{}:
	default: // with -serve, the tasks are not awaited
	}
}

// fire pays every order by many attempts at a time, over the public routes and the queue. It
// prints the gateway's account, and returns nil if every order was charged exactly once.
func fire(ctx context.Context, a *app, stdout io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, mostTime, fmt.Errorf("the burst took longer than %v", mostTime))
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: a.opts.workers}}
	defer client.CloseIdleConnections()
	attempts, tasks := make(chan string), 0
	var clients sync.WaitGroup
	for range a.opts.workers {
		clients.Go(func() {
			for path := range attempts {
				if err := a.pay(ctx, client, a.baseURL+path); err != nil && ctx.Err() == nil {
					a.tally.fail(err)
				}
			}
		})
	}
	for n := range a.opts.orders * a.opts.attempts { // the attempts to pay one order are in a row, so that they meet
		route := n % a.opts.attempts % len(routes)
		attempts <- fmt.Sprintf(routes[route], n/a.opts.attempts+1)
		if route == 1 {
			tasks++
		}
	}
	close(attempts)
	clients.Wait()
	for range tasks {
		select {
		case <-a.tally.tasksDone:
		case <-ctx.Done():
		}
	}
	return errors.Join(context.Cause(ctx), a.report(stdout))
}

// pay asks again while the order is busy or Redis does not answer. It does not wait for as long
// as Retry-After says: here an order is busy for milliseconds.
func (a *app) pay(ctx context.Context, client *http.Client, url string) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body) // a connection is used again only once its answer was read
		_ = resp.Body.Close()
		switch status := resp.StatusCode; {
		case err != nil:
			return err
		case status == http.StatusConflict:
			a.tally.busy.Add(1)
		case status == http.StatusServiceUnavailable:
		case status >= http.StatusBadRequest:
			return fmt.Errorf("answer %d to POST %s", status, url)
		default:
			return nil
		}
		if err := pause(ctx, a.opts.latency/2+rand.N(a.opts.latency+time.Millisecond)); err != nil {
			return err
		}
	}
}

func (a *app) report(w io.Writer) error {
	paid, charges, shipped := 0, 0, 0
	a.shop.do(func() {
		for _, n := range a.shop.charges {
			charges += n
			paid += min(n, 1)
		}
		for _, left := range a.shop.stock {
			shipped += initialStock - left
		}
	})
	say(w, "orders          %8d\n", a.opts.orders)
	say(w, "attempts        %8d  requests to echo and to net/http, and tasks\n", a.opts.orders*a.opts.attempts)
	say(w, "paid            %8d\n", paid)
	say(w, "answered busy   %8d\n", a.tally.busy.Load())
	say(w, "double charges  %8d\n", charges-paid)
	say(w, "stock drift     %8d\n", charges-shipped)
	var errs []error
	if paid < a.opts.orders {
		errs = append(errs, fmt.Errorf("%d orders were not charged", a.opts.orders-paid))
	}
	if charges > paid {
		errs = append(errs, fmt.Errorf("%d charges too many", charges-paid))
	}
	if charges != shipped {
		errs = append(errs, fmt.Errorf("the stock is off by %d", charges-shipped))
	}
	a.tally.mu.Lock()
	defer a.tally.mu.Unlock()
	if failed := a.tally.failed; len(failed) > 0 {
		errs = append(errs, fmt.Errorf("%d answers were errors, the first: %w", len(failed), failed[0]))
	}
	return errors.Join(errs...)
}
