package guard_test

import (
	"os"
	"testing"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/rig"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) {
	rig.Remembered, rig.InLine = guard.Remembered, guard.InLine
	os.Exit(redistest.Run(m))
}
