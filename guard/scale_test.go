package guard_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// acquireMany takes the keys from to to-1.
func (r *rig) acquireMany(t *testing.T, from, to int) []*guard.Lease {
	t.Helper()
	leases := make([]*guard.Lease, to-from)
	var workers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			for i := from + w; i < to; i += 16 {
				l, err := r.Acquire(t.Context(), guard.Keyf("%d", i))
				assert.NoError(t, err)
				leases[i-from] = l
			}
		})
	}
	workers.Wait()
	return leases
}

// stat reads a number from INFO.
func (r *rig) stat(t *testing.T, name string) int {
	t.Helper()
	info, err := r.direct.Info(t.Context(), "stats", "clients", "commandstats").Result()
	require.NoError(t, err)
	_, after, found := strings.Cut(info, name)
	require.True(t, found, name)
	digits := after[:strings.IndexFunc(after, func(c rune) bool { return c < '0' || c > '9' })]
	n, err := strconv.Atoi(digits)
	require.NoError(t, err)
	return n
}

// Redis reads what a pipeline sends in pieces of up to 16 KiB, some 70 renewals each;
// single commands would be a read each.
func TestTenThousandLeases(t *testing.T) {
	const few, many = 100, 10_000
	s := redistest.Start(t)
	r := newRigOn(t, s, nil, s.Client(t), guard.TTL(7500*time.Millisecond))
	leases := r.acquireMany(t, 0, few)
	withFew := runtime.NumGoroutine()
	leases = append(leases, r.acquireMany(t, few, many)...)
	renewals, _ := r.seen.count(guard.Renewal)
	reads := r.stat(t, "total_reads_processed:")
	r.seen.more(t, guard.Renewal, many)
	reads = r.stat(t, "total_reads_processed:") - reads
	after, _ := r.seen.count(guard.Renewal)
	withMany := runtime.NumGoroutine()
	clients := r.stat(t, "connected_clients:")

	t.Logf("%d renewals in %d reads over %d connections; %d goroutines with %d leases, %d with %d",
		after-renewals, reads, clients, withFew, few, withMany, many)
	assert.Less(t, reads, (after-renewals)/10)
	assert.Less(t, withMany, withFew+20)

	for _, l := range leases {
		assert.NoError(t, l.Err())
	}
	losses, _ := r.seen.count(guard.Loss)
	assert.Zero(t, losses)
	assert.Equal(t, many, r.locks(t))
	require.NoError(t, r.direct.FlushDB(t.Context()).Err()) // releasing them all takes longer
}

// locks counts the locks that are held in all of Redis.
func (r *rig) locks(t *testing.T) int {
	t.Helper()
	n := 0
	it := r.direct.ScanType(context.WithoutCancel(t.Context()), 0, "guard:{*}", 1000, "hash").Iterator()
	for it.Next(t.Context()) {
		n++
	}
	require.NoError(t, it.Err())
	return n
}
