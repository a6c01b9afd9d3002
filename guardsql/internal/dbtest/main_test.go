//go:build unix

package dbtest

import (
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/mariadbtest"
	"github.com/redlatch/redlatch/internal/postgrestest"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) {
	if isWorker() {
		os.Exit(work(os.Stdin, os.Stdout))
	}
	code := redistest.Run(m)
	postgrestest.Stop()
	mariadbtest.Stop()
	os.Exit(code)
}
