package watchdog_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Redis reads what a pipeline sends in pieces of up to 16 KiB, some 70 renewals each;
// single commands would be a read each.
func TestScale_TenThousandLeases(t *testing.T) {
	const few, many = 100, 10_000
	s := redistest.Start(t)
	r := testenv.NewOn(t, s, nil, s.Client(t), guard.TTL(7500*time.Millisecond))
	leases := r.AcquireMany(t, 0, few)
	withFew := runtime.NumGoroutine()
	leases = append(leases, r.AcquireMany(t, few, many)...)
	renewals, _ := r.Seen.Count(guard.Renewal)
	reads := r.Stat(t, "total_reads_processed:")
	r.Seen.More(t, guard.Renewal, many)
	reads = r.Stat(t, "total_reads_processed:") - reads
	after, _ := r.Seen.Count(guard.Renewal)
	withMany := runtime.NumGoroutine()
	clients := r.Stat(t, "connected_clients:")

	t.Logf("%d renewals in %d reads over %d connections; %d goroutines with %d leases, %d with %d",
		after-renewals, reads, clients, withFew, few, withMany, many)
	assert.Less(t, reads, (after-renewals)/10)
	assert.Less(t, withMany, withFew+20)

	for _, l := range leases {
		assert.NoError(t, l.Err())
	}
	losses, _ := r.Seen.Count(guard.Loss)
	assert.Zero(t, losses)
	assert.Equal(t, many, r.Locks(t))
	require.NoError(t, r.Direct.FlushDB(t.Context()).Err()) // releasing them all takes longer
}
