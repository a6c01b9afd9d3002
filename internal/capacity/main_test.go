package capacity_test

import (
	"flag"
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/redistest"
)

var (
	large  = flag.Bool("large", false, "measure for a minute, and simulate 1,000,000 held locks")
	update = flag.Bool("update", false, "write the tables of docs/operate/capacity.md")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(redistest.Run(m))
}
