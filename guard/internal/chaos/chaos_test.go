package chaos_test

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestChaos(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are stopped by signals, and die with their parents, on Linux")
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	for _, topo := range topologies {
		if *topologyFlag != "" && *topologyFlag != topo.name {
			continue
		}
		t.Run(topo.name, func(t *testing.T) {
			d := cmp.Or(*durationFlag, topo.short)
			t.Logf("seed %d for %v", seed, d)
			run(t, topo, seed, d)
		})
	}
}

// run injects faults while workers take locks, and judges what the witness noted.
func run(t *testing.T, topo topology, seed uint64, d time.Duration) {
	net := newNetwork(t, topo, seed)
	witness := newWitness()
	workers := &workers{tb: t, witness: witness}
	t.Cleanup(workers.killAll)
	for i := range workers.processes {
		workers.orders[i] = net.order(i, seed)
		workers.start(i)
	}
	injector := &injector{
		tb: t, seed: seed, net: net, workers: workers,
		faulty: make(map[string]bool), recovered: make(map[int]time.Time), clockBase: make([]time.Duration, topo.size),
	}
	injector.run(d)
	instances := workers.endAll()
	report := &report{
		injector: injector, witness: witness, judgement: judge(witness.history, injector.losses, net.clocks, witness.calls),
		leftovers: net.leftovers(t, instances),
	}
	t.Log(report)
	assert.Greater(t, witness.outcomes[kept], 50, "the run has to prove something")
	for _, wrong := range report.wrong() {
		t.Error(wrong)
	}
}
