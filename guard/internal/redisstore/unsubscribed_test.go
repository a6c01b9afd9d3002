package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asks has an owner that has no subscription wait.
func (b *bench) asks(owner string) []any {
	b.Helper()
	args := acquireArgs(owner, "1c:", 60000, "0", "", "0")
	args[len(args)-1] = "u"
	return said(b.run("acquire", allKeys, args...)...)
}

// A process that may not subscribe gets its turn as others do: it asks each second, and nobody
// takes it for dead because no message reaches it. One that stopped asking is passed over.
func TestUnsubscribed_AClaimWithoutASubscriptionGetsItsTurn(t *testing.T) {
	t.Parallel()
	const alive = 1500 * time.Millisecond
	for _, limit := range []string{"", "2."} {
		for silent, granted := range map[time.Duration]bool{0: true, alive: true, alive + time.Millisecond: false} {
			name := strings.TrimSpace(fmt.Sprint("limit ", limit, " silent for ", silent))
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := newSteppedServer(t)
				b := &bench{t, server.client, map[string]*redis.PubSub{}}
				b.listen("next", "last")
				first, mute, next, last := "x-1", "mute-"+limit+"1", "next-"+limit+"1", "last-"+limit+"1"
				fence := b.holds(first)
				b.waits(next, "0", 0)
				server.pass(time.Millisecond)
				front := b.asks(mute)
				require.EqualValues(t, 0, front[0])
				require.EqualValues(t, 1, front[4], "behind next")
				b.waits(last, "0", 2)
				b.unshare(next, 0) // it gave up
				server.pass(silent)
				b.release(first, fence, 0)
				inside := b.HExists(t.Context(), lockKey, mute).Val()
				require.Equal(t, granted, inside)
				if granted {
					require.EqualValues(t, 1, b.asks(mute)[0], "it comes for it")
				} else {
					assert.True(t, b.HExists(t.Context(), lockKey, last).Val(), "whoever comes after it is granted the lock")
					assert.False(t, b.HExists(t.Context(), seenKey, mute).Val())
				}
			})
		}
	}
}
