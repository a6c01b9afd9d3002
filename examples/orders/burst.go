package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	clientTimeout = 30 * time.Second

	// patience is how long a client asks again when it is told to, and how long the burst
	// waits for another task to end. What takes longer takes for ever: that ends the burst.
	patience = 30 * time.Second
)

// The routes take turns, so that all ways to pay an order meet.
var routes = [...]struct {
	path string
	task bool // answered before the order is paid, by a task
}{
	{path: "/orders/%d/pay"},
	{path: "/orders/%d/charge", task: true},
	{path: "/admin/orders/%d/settle"},
	{path: "/orders/%d/pay"},
}

// attempt is one try to pay an order.
type attempt struct {
	path string
	task bool
}

// burst pays every order by many attempts at a time, over the routes and the queue that
// anybody would use.
type burst struct {
	app    *app
	client *http.Client
	giveUp context.CancelCauseFunc // ends the burst
}

func newBurst(a *app) *burst {
	return &burst{app: a, client: &http.Client{
		Timeout:   clientTimeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: a.opts.workers},
	}}
}

// run returns when all attempts have ended, or when ctx has.
func (b *burst) run(ctx context.Context) error {
	defer b.client.CloseIdleConnections()
	ctx, b.giveUp = context.WithCancelCause(ctx)
	defer b.giveUp(nil)
	attempts := make(chan attempt)
	var clients sync.WaitGroup
	for range b.app.opts.workers {
		clients.Go(func() {
			for a := range attempts {
				b.try(ctx, a)
			}
		})
	}
	tasks := b.plan(ctx, attempts)
	clients.Wait()
	return b.awaitTasks(ctx, tasks)
}

// plan hands out the attempts, those at one order in a row: that is what makes them
// meet. It returns how many of them are tasks.
func (b *burst) plan(ctx context.Context, attempts chan<- attempt) (tasks int) {
	defer close(attempts)
	for order := range b.app.opts.orders {
		for i := range b.app.opts.attempts {
			route := routes[i%len(routes)]
			a := attempt{fmt.Sprintf(route.path, order+1), route.task}
			select {
			case attempts <- a:
			case <-ctx.Done():
				return tasks
			}
			if a.task {
				tasks++
			}
		}
	}
	return tasks
}

// try makes one attempt: it asks until the answer is not "later".
func (b *burst) try(ctx context.Context, a attempt) {
	tally := b.app.tally
	tally.attempts.Add(1)
	status, err := b.askUntilFree(ctx, a)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		tally.fail(err)
	case isLater(status):
		b.giveUp(fmt.Errorf("answer %d to POST %s for %v", status, a.path, patience))
		return
	case status >= http.StatusBadRequest:
		tally.fail(fmt.Errorf("answer %d to POST %s", status, a.path))
	case a.task:
		return // done when the task is
	}
	tally.done.Add(1)
}

// askUntilFree comes back when it is told to, as Retry-After asks for, only sooner: here
// an order is busy for milliseconds.
func (b *burst) askUntilFree(ctx context.Context, a attempt) (status int, err error) {
	for end := time.Now().Add(patience); ; {
		status, err = b.ask(ctx, a)
		if status == http.StatusConflict {
			b.app.tally.busy.Add(1)
		}
		if err != nil || !isLater(status) || time.Now().After(end) {
			return status, err
		}
		latency := b.app.opts.latency + time.Millisecond
		if err := pause(ctx, latency/2+rand.N(latency)); err != nil {
			return 0, err
		}
	}
}

// isLater tells the answers after which nothing was done and the client may come back:
// the order is busy, or Redis did not answer in time.
func isLater(status int) bool {
	return status == http.StatusConflict || status == http.StatusServiceUnavailable
}

func (b *burst) ask(ctx context.Context, a attempt) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.app.baseURL+a.path, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	// A connection is used again only once its answer was read.
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// awaitTasks waits for as many tasks to end.
func (b *burst) awaitTasks(ctx context.Context, tasks int) error {
	stuck := time.NewTimer(patience)
	defer stuck.Stop()
	for i := range tasks {
		select {
		case <-b.app.tally.tasksDone:
			stuck.Reset(patience)
		case <-stuck.C:
			return fmt.Errorf("%d tasks did not end", tasks-i)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return context.Cause(ctx)
}
