package guardwatermill_test

import (
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/middleware/internal/tasktest"
)

// Streams stay where they are.
func TestMain(m *testing.M) {
	os.Exit(tasktest.Main(m, func(m *testing.M) int { return redistest.Run(m, "topic:") }))
}
