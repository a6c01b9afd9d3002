package guardasynq_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) {
	if work := os.Getenv(workOnEnv); work != "" {
		if err := workUntilKilled(work); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(redistest.Run(m, "asynq:"))
}
