package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// scenario is a situation to measure the libraries in.
type scenario struct {
	name  string
	title string
	run   func(ctx context.Context, b *bench, s *scenario) (result, error)

	everyServer bool // it is measured on all servers; else on the first
}

// result is what a scenario showed.
type result struct{ measures []*measure }

// The scenarios, in the order of the table.
var scenarios = []*scenario{
	{"solo", "one goroutine, a key of its own", runSolo, true},
	{"distinct", "one process, each goroutine has a key of its own", runDistinct, true},
	{"network", "Redis is 1 ms away, 8 goroutines with keys of their own", runNetwork, false},
	{"many", "100 processes, each has 2 goroutines with keys of their own", runMany, true},
	{"hot", "one process, all goroutines want one key, empty section", runHot, false},
	{"crowd", "one key, 4 processes × 64 goroutines, 1 ms section", runCrowd, false},
	{"turns", "one key, two processes take turns, 1 ms section", runTurns, false},
	{"waiting", "1,000 wait for a key that is held for 10 s", runWaiting, false},
	{"big", "a key that thousands wait for, or have", runBig, false},
	{"held", "100,000 leases are held by one process", runHeld, false},
	{"several", "several keys at once, beside nested locks", runSeveral, false},
	{"limits", "one key that several hold at once, beside a plain lock, 1 ms section", runLimits, false},
	{"recovery", "after a fault, until callers have their locks again", runRecovery, false},
	{"replicas", "what waiting for replicas costs", runReplicas, false},
	{"quorum", "a quorum of 5 servers, one goroutine, a key of its own", runQuorum, false},
}

const warmup = 300 * time.Millisecond

// size is how much a run does.
type size struct {
	shorter   time.Duration // by which times are divided
	waiters   int
	leases    int
	processes int
}

var (
	fullSize  = size{1, 1000, 100_000, 100}
	quickSize = size{4, 1000, 10_000, 100}
)

func (s size) long(d time.Duration) time.Duration { return d / s.shorter }

// interleave has each library do a job in each round. Rounds begin with different
// libraries, so that none is always measured right after the same other one.
func (b *bench) interleave(ctx context.Context, names []string, j job, processes int,
	each func(library string, o outcome) error,
) error {
	for round := range b.rounds {
		for i := range names {
			j.Library = names[(round+i)%len(names)]
			o, err := b.run(ctx, j, processes)
			if err == nil {
				err = each(j.Library, o)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", j.Library, err)
			}
			fmt.Fprint(os.Stderr, ".")
		}
	}
	return nil
}

const sentPerAcquisition = "commands sent per acquisition"

// costs are the measures of what an acquisition costs.
type costs struct{ sent, server, clients *measure }

func newCosts(s *scenario, which string, bars ...bar) costs {
	return costs{
		newMeasure(s.name, sentPerAcquisition+which, 2, bars...),
		newMeasure(s.name, "CPU of redis-server per acquisition, µs"+which, 1),
		newMeasure(s.name, "CPU of clients per acquisition, µs"+which, 1),
	}
}

func (c costs) add(library string, o outcome) {
	c.sent.add(library, o.sentPerAcquisition())
	c.server.add(library, o.perAcquisition(o.serverCPU))
	c.clients.add(library, o.perAcquisition(o.clientCPU))
}

func (c costs) all() []*measure { return []*measure{c.sent, c.server, c.clients} }
