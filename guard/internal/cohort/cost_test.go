package cohort_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// longQueue is a thousand callers that wait for one key.
type longQueue struct {
	*testenv.Redis
	guards int
	holder *guard.Lease
	over   <-chan time.Time // when they have waited for ten seconds
	begun  []time.Time      // of each caller
	wg     sync.WaitGroup
}

const queueSize = 1000

// newLongQueue spreads the callers over some Guards, and returns when all wait. They come
// fifty at a time: how a thousand connect at once is another question.
func newLongQueue(t *testing.T, guards int) *longQueue {
	t.Helper()
	c := &longQueue{Redis: testenv.NewRedis(t), guards: guards}
	gs := make([]*guard.Guard, guards)
	for i := range gs {
		gs[i] = c.GuardOn(c.Admin)
	}
	c.holder = c.Acquire(c.Guard(), "k", guard.TTL(time.Minute)) // nothing is renewed meanwhile
	c.ResetCommands()
	c.over = time.After(10 * time.Second)
	for i := range queueSize {
		c.begun = append(c.begun, time.Now())
		c.wg.Go(func() {
			assert.NoError(t, gs[i%guards].WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
				c.Book.Enter(ctx, "k", "caller")()
				return nil
			}))
		})
		if (i+1)%50 == 0 {
			c.Eventually(func() bool {
				n := 0
				for _, g := range gs {
					n += testenv.Queued(g)
				}
				return n == i+1
			}, "%d waiting callers", i+1)
		}
	}
	return c
}

// disperse says how many scripts it took to wait, and how many if each asks once in ten seconds,
// and once more after its subscription had to be replaced, as on a busy machine. It lets all in.
func (c *longQueue) disperse() (scripts, once int) {
	c.Helper()
	<-c.over
	scripts = c.Scripts()
	for _, begun := range c.begun {
		once += 1 + int(time.Since(begun)/(10*time.Second))
	}
	commands := c.Commands()
	replaced := commands["subscribe"] - c.guards
	once += replaced
	c.Logf("%d scripts, %d messages, %d subscriptions replaced", scripts, commands["publish"], replaced)
	assert.Empty(c, c.Book.Entered())
	c.Release(c.holder)
	c.wg.Wait()
	assert.Len(c, c.Book.Entered(), queueSize)
	return scripts, once
}

// Callers of one process wait for the process, whose one claim asks once a second while
// it is in front of the queue. Of a thousand processes that wait, each asks once, and
// the first two once a second.
func TestCost_WaitingCostsNextToNothing(t *testing.T) {
	t.Parallel()
	one, many := newLongQueue(t, 1), newLongQueue(t, queueSize)
	n, _ := one.disperse()
	assert.LessOrEqual(t, n, 30)
	n, once := many.disperse()
	assert.GreaterOrEqual(t, n, queueSize)
	assert.LessOrEqual(t, n, once+100)
}
