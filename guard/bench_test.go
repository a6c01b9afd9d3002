package guard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
)

// One caller, one key that no other caller wants: on the store in memory, which shows what the Guard itself costs, and on
// a real Redis, with two round trips.
func BenchmarkWithLock(b *testing.B) {
	for name, made := range map[string]func() (*guard.Guard, error){
		"store=memory": func() (*guard.Guard, error) { return guard.NewWithStore(guardtest.NewStore()) },
		"store=redis":  func() (*guard.Guard, error) { return guard.New(redistest.Shared(b).Client(b)) },
	} {
		b.Run(name, func(b *testing.B) {
			g, err := made()
			require.NoError(b, err)
			b.Cleanup(func() { _ = g.Close() })
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, g.WithLock(b.Context(), k, nothing))
			}
		})
	}
}
