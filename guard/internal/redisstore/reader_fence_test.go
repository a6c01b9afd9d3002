package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Readers that renew their hold for longer than last lives are known from the lock alone. The
// clock goes back to before they came: the next one's fence is above theirs all the same.
func TestReaderFence_AFenceIsAboveThoseOfReadersThatLastHasForgotten(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 2; n++ {
		t.Run(fmt.Sprint("readers ", n), func(t *testing.T) {
			t.Parallel()
			server := newSteppedServer(t)
			b := &bench{t, server.client, map[string]*redis.PubSub{}}
			fences := make([]string, n)
			for i := range n {
				fences[i] = b.share(fmt.Sprint("a-0.", i), 10000, "", "", "0")[1].(string)
				server.pass(time.Second)
			}
			for b.Exists(t.Context(), lastKey).Val() > 0 {
				for i, fence := range fences {
					require.EqualValues(t, 1, b.renewShared(fmt.Sprint("a-0.", i), fence, 10000))
				}
				server.pass(5 * time.Second)
			}
			server.step(-time.Hour)
			reply := b.share("b-0.1", 10000, "", "", "0")
			require.EqualValues(t, 1, reply[0])
			assert.Greater(t, reply[1], fences[n-1])
		})
	}
}
