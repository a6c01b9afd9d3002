package stack_test

import (
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m, "asynq:")) }
