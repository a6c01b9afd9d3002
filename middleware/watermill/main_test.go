package guardwatermill_test

import (
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/redistest"
)

// Streams stay where they are.
func TestMain(m *testing.M) { os.Exit(redistest.Run(m, "topic:")) }
