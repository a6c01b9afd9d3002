package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// scenario is a situation to measure the libraries in.
type scenario struct {
	name  string
	title string
	run   func(ctx context.Context, b *bench, s *scenario) (result, error)
}

// result is what a scenario showed.
type result struct {
	measures []*measure
	waits    map[string]*hdrhistogram.Histogram // of all rounds, if the scenario plots them
}

// The scenarios, in the order of the table.
var scenarios = []*scenario{
	{"solo", "one goroutine, a key that nobody else wants", runSolo},
	{"distinct", "one process, each goroutine has a key of its own", runDistinct},
	{"hot", "one process, all goroutines want one key, empty section", runHot},
	{"crowd", "one key, 4 processes × 64 goroutines, 1 ms section", runCrowd},
	{"turns", "one key, two processes take turns, 1 ms section", runTurns},
	{"waiting", "1,000 wait for a key that is held for 10 s", runWaiting},
	{"held", "100,000 leases are held by one process", runHeld},
	{"several", "several keys at once, beside nested locks", runSeveral},
	{"limits", "one key that several hold at once, beside a plain lock, 1 ms section", runLimits},
	{"recovery", "after a fault, until callers have their locks again", runRecovery},
	{"replicas", "what waiting for replicas costs", runReplicas},
	{"quorum", "a quorum of 5 servers, one goroutine, a key that nobody else wants", runQuorum},
}

const warmup = 300 * time.Millisecond

// size is how much a run does.
type size struct {
	shorter time.Duration // by which times are divided
	waiters int
	leases  int
}

var (
	fullSize  = size{1, 1000, 100_000}
	quickSize = size{4, 1000, 10_000}
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
