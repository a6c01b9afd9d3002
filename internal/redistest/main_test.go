package redistest

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanEnv) != "" {
		beOrphaned()
	}
	os.Exit(Run(m))
}
