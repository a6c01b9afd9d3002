package guardstore_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// Programs of different versions read each other's owners.
func TestLimit_Names(t *testing.T) {
	t.Parallel()
	for limit, want := range map[guardstore.Limit][2]string{
		guardstore.Exclusive: {"exclusive", "i-z"},
		guardstore.Unlimited: {"unlimited", "i-0.z"},
		7:                    {"7", "i-7.z"},
	} {
		assert.Equal(t, want, [2]string{limit.String(), guardstore.NewOwner("i", limit, 35)})
	}
}

func TestLimit_Fits(t *testing.T) {
	t.Parallel()
	for limit, most := range map[guardstore.Limit]int{guardstore.Exclusive: 1, 2: 2, 7: 7} {
		for n := range 10 {
			assert.Equal(t, n <= most, limit.Fits(n), "%v: %d", limit, n)
			assert.True(t, guardstore.Unlimited.Fits(n))
		}
	}
}

func TestRefusedError_SaysItsReason(t *testing.T) {
	t.Parallel()
	reason := errors.New("OOM")
	err := error(&guardstore.RefusedError{Err: reason})
	assert.EqualError(t, err, "OOM")
	assert.ErrorIs(t, err, reason)
	assert.EqualError(t, &guardstore.RefusedError{}, "refused")
}
