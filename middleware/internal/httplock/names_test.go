package httplock_test

import (
	"strconv"
	"testing"

	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
)

// The code of an answer is the error.type of telemetry.
func TestNames_CodeIsTheErrorType(t *testing.T) {
	t.Parallel()
	adaptertest.ErrorNames(t, "../../../docs/reference/errors.md", 2, func(err error) (name, status string) {
		answer := httplock.Of(t.Context(), err, nil)
		return answer.Code, strconv.Itoa(answer.Status)
	})
}
