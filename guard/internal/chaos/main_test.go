package chaos_test

import (
	"flag"
	"os"
	"testing"

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
