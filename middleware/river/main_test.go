package guardriver_test

import (
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/postgrestest"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) {
	code := redistest.Run(m)
	postgrestest.Stop()
	os.Exit(code)
}
