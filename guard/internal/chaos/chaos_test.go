package chaos

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/internal/redistest"
)

var (
	seedFlag     = flag.Uint64("seed", 0, "what the faults are drawn from; 0 draws a seed")
	durationFlag = flag.Duration("duration", 0, "how long the faults go on, for each topology; 0 is short")
	topologyFlag = flag.String("topology", "", "single, quorum, sentinel or cluster; all if empty")
)

func TestMain(m *testing.M) {
	if order := os.Getenv(orderEnv); order != "" {
		os.Exit(runWorker(order))
	}
	flag.Parse()
	os.Exit(redistest.Run(m))
}

func TestChaos(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are stopped by signals, on Linux")
	}
	seed := cmp.Or(*seedFlag, rand.Uint64N(1_000_000)+1)
	for _, topo := range topologies {
		if *topologyFlag == "" || *topologyFlag == topo.name {
			t.Run(topo.name, func(t *testing.T) { run(t, topo, seed, cmp.Or(*durationFlag, topo.short)) })
		}
	}
}

const mostReported = 5 // of a kind

// run injects faults while workers take locks, and judges what the witness noted.
func run(t *testing.T, topo topology, seed uint64, d time.Duration) {
	t.Logf("seed %d for %v", seed, d)
	net := newNetwork(t, topo, seed)
	witness := newWitness()
	workers := &workers{tb: t, witness: witness}
	t.Cleanup(workers.killAll)
	for i := range workers.processes {
		workers.orders[i] = net.order(i, seed)
		workers.start(i)
	}
	s := &injector{
		tb: t, seed: seed, net: net, workers: workers,
		faulty: make(map[string]time.Time), clockBase: make([]time.Duration, topo.size),
	}
	s.run(d)
	instances := workers.endAll()
	j := judge(witness.history, s.losses, net.clocks, witness.calls)
	t.Logf("RESP%d; %d calls of %d processes, leases: %v; %d faults; held twice: %d, besides %d as Redis lost data (%d times)",
		net.protocol, witness.calls, workers.started, witness.outcomes, len(s.log), len(j.overlaps), j.excused, len(s.losses))
	assert.Greater(t, witness.outcomes[kept], 50, "the run has to prove something")
	for _, kind := range [][]string{witness.wrong, j.disorder, j.tooSoon, j.late, j.overlaps, net.leftovers(t, instances)} {
		for _, wrong := range kind[:min(len(kind), mostReported)] {
			t.Error(wrong)
		}
	}
	for _, i := range s.log {
		if t.Failed() {
			t.Logf("%s (%s): %+v", i.kind, i.target, i.span)
		}
	}
}
