package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"

	"github.com/redlatch/redlatch/guard"
)

// isWorker says whether this process was started to move money.
func isWorker() bool { return os.Getenv(envRun) != "" }

// work does the transfers of one process, and prints its tally.
func work() int {
	t, err := transfers(context.Background(), planFromEnv())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(t)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "transfer:", err)
		return 1
	}
	return 0
}

// transfers has all callers of a process move money between random accounts.
func transfers(ctx context.Context, p plan) (t tally, err error) {
	b, err := openBank(p.redis, p.run)
	if err != nil {
		return t, err
	}
	defer b.close()
	g, err := guard.New(b.rdb, guard.Wait(p.wait), guard.Name("account"))
	if err != nil {
		return t, err
	}
	defer func() { _ = g.Close() }()

	var mu sync.Mutex
	var callers sync.WaitGroup
	for range p.callers {
		callers.Go(func() {
			for range p.transfers {
				from := rand.IntN(p.accounts)                           //nolint:gosec // no secret
				to := (from + 1 + rand.IntN(p.accounts-1)) % p.accounts //nolint:gosec // no secret
				failure := p.transfer(ctx, g, b, from, to)
				mu.Lock()
				switch {
				case failure == nil:
					t.Done++
				case errors.Is(failure, guard.ErrBusy):
					t.Busy++
				case err == nil:
					err = failure
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	return t, err
}

// transfer moves one coin.
func (p plan) transfer(ctx context.Context, g *guard.Guard, b *bank, from, to int) error {
	move := func(ctx context.Context) error { return b.move(ctx, from, to, 1) }
	account := func(id int) guard.KeyFunc { return guard.Keyf("account:%s:%s", p.run, strconv.Itoa(id)) }
	switch p.mode {
	case unlocked:
		return move(ctx)
	case inCallOrder: // while somebody else does it the other way around
		return g.WithLock(ctx, account(from), func(ctx context.Context) error {
			return g.WithLock(ctx, account(to), move)
		})
	default:
		return g.WithLocks(ctx, []guard.KeyFunc{account(from), account(to)}, move)
	}
}
