// Command transfer moves money between accounts, in both directions at once, in several
// processes. Each transfer locks both accounts by WithLocks. No transfer waits in vain, and the
// sum of all accounts stays what it was:
//
//	go run ./examples/transfer
//	go run ./examples/transfer -nested      # two locks nested in the order of the call: deadlocks
//	go run ./examples/transfer -unlocked    # no locks: money appears and vanishes
//	REDIS_URL=redis://… go run ./examples/transfer
//
// Without REDIS_URL it uses a Redis of its own. The accounts are kept in the same Redis as the
// locks, to have the example short.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/redlatch/redlatch/guard/embedded"
)

const processes = 3

func main() {
	if isWorker() {
		os.Exit(work())
	}
	p := plan{mode: together, accounts: 4, callers: 8, transfers: 25, wait: 5 * time.Second}
	nested := flag.Bool("nested", false, "nest one lock in the other, in the order of the call")
	bare := flag.Bool("unlocked", false, "take no locks")
	flag.Parse()
	switch {
	case *nested:
		p.mode, p.transfers, p.wait = inCallOrder, 2, 500*time.Millisecond // each deadlock lasts that long
	case *bare:
		p.mode = unlocked
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Getenv("REDIS_URL"), p)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "transfer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, redisURL string, p plan) error {
	if redisURL == "" {
		server, err := embedded.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		redisURL = "redis://" + server.Addr()
	}
	_, err := show(ctx, redisURL, p, os.Stdout)
	return err
}

// show has several processes move money, and says what became of it.
func show(ctx context.Context, redisURL string, p plan, out io.Writer) (end outcome, err error) {
	b, err := openBank(redisURL, newRun())
	if err != nil {
		return end, err
	}
	defer b.close()
	if end.before, err = b.open(ctx, p.accounts); err != nil {
		return end, err
	}
	defer func() { _ = b.remove(context.WithoutCancel(ctx)) }()

	p.redis, p.run = redisURL, b.run
	if end.tally, err = p.workers(ctx, processes); err != nil {
		return end, err
	}
	if end.after, err = b.sum(ctx); err != nil {
		return end, err
	}
	_, err = fmt.Fprintln(out, end)
	return end, err
}

// outcome is what is known at the end.
type outcome struct {
	tally
	before, after int
}

func (o outcome) String() string {
	verdict := "the books are right"
	if o.before != o.after {
		verdict = "the books are WRONG"
	}
	return fmt.Sprintf("%d transfers done, %d waited in vain for their locks; %d at first, %d now: %s",
		o.Done, o.Busy, o.before, o.after, verdict)
}
