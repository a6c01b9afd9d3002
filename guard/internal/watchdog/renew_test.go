package watchdog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// A reply is waited for so long that a second try is in time, and never past the deadline.
func TestRenewal_HowLongAReplyIsWaitedFor(t *testing.T) {
	for ttl, want := range map[time.Duration][]time.Duration{
		// A second, and a pause of at most one.
		time.Hour: {time.Second, time.Second, time.Second},
		// Sent after 1, 1.65 and 2.3 s. The deadline is 2.698 s.
		3 * time.Second: {500 * time.Millisecond, 500 * time.Millisecond, 398 * time.Millisecond},
		// Sent after 33⅓, 58⅓ and 83⅓ ms. The deadline is 88 ms.
		100 * time.Millisecond: {20 * time.Millisecond, 20 * time.Millisecond, 4_666_667},
	} {
		t.Run(ttl.String(), func(t *testing.T) {
			watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
				var waits []time.Duration
				s.OnRenew = func(ctx context.Context, _ int) guardstore.RenewReply {
					until, ok := ctx.Deadline()
					require.True(t, ok)
					waits = append(waits, time.Until(until))
					return silence(ctx, 0)
				}
				watch(granted(w, "o", ttl), 0)
				pass(ttl)
				require.GreaterOrEqual(t, len(waits), 3)
				assert.Equal(t, want, waits[:3])
				for _, wait := range waits {
					assert.GreaterOrEqual(t, wait, time.Millisecond)
				}
			})
		})
	}
}

// Renewals that are due within a sixtieth of the ttl go out together. The batch is waited for as its most urgent
// grant is.
func TestRenewal_GrantsThatAreDueSoonGoOutTogether(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		var waits []time.Duration
		s.OnRenew = func(ctx context.Context, _ int) guardstore.RenewReply {
			until, _ := ctx.Deadline()
			waits = append(waits, time.Until(until))
			return held
		}
		watch(granted(w, "slow", 9*time.Second), 0) // due after 3 s
		time.Sleep(2050 * time.Millisecond)
		watch(granted(w, "urgent", 3*time.Second), 0) // due 50 ms after it
		time.Sleep(time.Millisecond)
		watch(granted(w, "later", 3*time.Second), 0)
		pass(949 * time.Millisecond)
		assert.Equal(t, []int{2}, s.Batches())
		pass(51 * time.Millisecond)
		assert.Equal(t, []int{2, 1}, s.Batches())
		assert.Equal(t, 500*time.Millisecond, waits[0])
		w.EndAll(errors.New("enough"))
	})
}

// A renewal that failed is repeated after a twentieth of the ttl: 5 ms at least, a second at most. It may
// go out a little earlier, with others.
func TestRenewal_HowSoonAFailureIsRepeated(t *testing.T) {
	for ttl, pause := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 5 * time.Millisecond,
		60 * time.Millisecond:  5 * time.Millisecond,
		3 * time.Second:        150 * time.Millisecond,
		19 * time.Second:       950 * time.Millisecond,
		time.Hour:              time.Second,
	} {
		t.Run(ttl.String(), func(t *testing.T) {
			watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
				var at []time.Time
				s.OnRenew = func(context.Context, int) guardstore.RenewReply {
					at = append(at, time.Now())
					return guardstore.RenewReply{Err: errors.New("down")}
				}
				watch(granted(w, "o", ttl), 0)
				pass(ttl/2 + 2*time.Millisecond)
				require.Greater(t, len(at), 2)
				early := min(ttl/60, 250*time.Millisecond)
				for i, next := range at[1:] {
					assert.LessOrEqual(t, next.Sub(at[i]), pause)
					assert.GreaterOrEqual(t, next.Sub(at[i]), pause-early)
				}
			})
		})
	}
}

// Renewals that are due together go out in pipelines of 500, four at a time.
func TestRenewal_BatchesAreBoundedAndFourAtATime(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		s.OnRenew = silence
		for range 2501 {
			watch(granted(w, "o", ttl), 0)
		}
		pass(ttl/3 + 100*time.Millisecond)
		assert.Equal(t, []int{500, 500, 500, 500}, s.Batches())
		pass(time.Second)
		assert.ElementsMatch(t, []int{500, 500, 500, 500, 500, 1}, s.Batches()) // the last two go out together
		w.EndAll(errors.New("enough"))
	})
}
