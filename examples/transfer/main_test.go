package main

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) {
	if isWorker() {
		os.Exit(work())
	}
	os.Exit(redistest.Run(m))
}

func end(t *testing.T, p plan) (outcome, string) {
	t.Helper()
	var out bytes.Buffer
	end, err := show(t.Context(), redistest.Shared(t).URL(), p, &out)
	require.NoError(t, err, out.String())
	return end, out.String()
}

func TestTransfer_AllTransfersAreDoneAndTheSumIsKept(t *testing.T) {
	t.Parallel()
	end, text := end(t, plan{mode: together, accounts: 3, callers: 8, transfers: 20, wait: time.Minute})
	assert.Equal(t, tally{Done: processes * 8 * 20}, end.tally)
	assert.Equal(t, 3*opening, end.before)
	assert.Equal(t, 3*opening, end.after)
	assert.Contains(t, text, "480 transfers done, 0 waited in vain for their locks; 3000 at first, 3000 now: the books are right")
}

// The books are right, for both locks are held. But transfers that cross wait for each other.
func TestTransfer_LocksNestedInTheOrderOfTheCallDeadlock(t *testing.T) {
	t.Parallel()
	end, text := end(t, plan{mode: inCallOrder, accounts: 2, callers: 8, transfers: 3, wait: 300 * time.Millisecond})
	assert.Positive(t, end.Busy, "none waited in vain")
	assert.Equal(t, processes*8*3, end.Done+end.Busy)
	assert.Equal(t, end.before, end.after)
	assert.Contains(t, text, "the books are right")
}

// Without this the first test would prove nothing. Errors can cancel out, so one run of ten has to show them.
func TestTransfer_WithoutLocksTheSumIsNotKept(t *testing.T) {
	t.Parallel()
	for range 10 {
		if end, text := end(t, plan{mode: unlocked, accounts: 2, callers: 8, transfers: 50}); end.before != end.after {
			assert.Contains(t, text, "the books are WRONG")
			return
		}
	}
	t.Fatal("the sum was kept without locks, ten times")
}
