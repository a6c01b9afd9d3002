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
	code := redistest.Run(m)
	postgrestest.Stop()
	mariadbtest.Stop()
	os.Exit(code)
}
