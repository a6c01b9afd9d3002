package guard_test

import (
	"context"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

var commandStat = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`)

// commands counts what the server executed since resetCommands, by name, what scripts
// called included.
func (s *site) commands() map[string]int {
	s.Helper()
	info, err := s.admin.Info(s.Context(), "commandstats").Result()
	require.NoError(s, err)
	calls := make(map[string]int)
	for _, m := range commandStat.FindAllStringSubmatch(info, -1) {
		n, err := strconv.Atoi(m[2])
		require.NoError(s, err)
		calls[m[1]] = n
	}
	return calls
}

func (s *site) resetCommands() {
	s.Helper()
	require.NoError(s, s.admin.ConfigResetStat(s.Context()).Err())
}

// scripts counts the scripts that were run since resetCommands.
func (s *site) scripts() int {
	s.Helper()
	c := s.commands()
	return c["evalsha"] + c["eval"]
}

// calledByScripts counts what is left without the commands that clients send.
func (s *site) calledByScripts() int {
	s.Helper()
	n := 0
	for name, calls := range s.commands() {
		switch name {
		case "evalsha", "eval", "info", "config|resetstat", "hello", "client|setinfo", "client|maint_notifications", "ping":
		default:
			n += calls
		}
	}
	return n
}

// All locks share the one thread of a Redis, and every command costs it more than a
// microsecond.
func TestUncontendedCycleIsLean(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.guard()
	s.visit(g, "open the subscription")
	for _, state := range []string{"new", "used before"} {
		s.resetCommands()
		l := s.acquire(g, "k")
		acquire := s.calledByScripts()
		s.resetCommands()
		s.release(l)
		release := s.calledByScripts()
		assert.Positive(t, acquire)
		assert.LessOrEqual(t, acquire, 6, "acquire, %s key", state)
		assert.Positive(t, release)
		assert.LessOrEqual(t, release, 5, "release, %s key", state)
	}
}

// crowd is a thousand callers that wait for one key.
type crowd struct {
	*site
	holder *guard.Lease
	over   <-chan time.Time // when they have waited for ten seconds
	wg     sync.WaitGroup
}

const crowdSize = 1000

// newCrowd spreads the callers over some Guards, and returns when all wait. They come
// fifty at a time: how a thousand connect at once is another question.
func newCrowd(t *testing.T, guards int) *crowd {
	t.Helper()
	c := &crowd{site: newSite(t)}
	gs := make([]*guard.Guard, guards)
	for i := range gs {
		gs[i] = c.guardOn(c.admin)
	}
	c.holder = c.acquire(c.guard(), "k", guard.TTL(time.Minute)) // nothing is renewed meanwhile
	c.resetCommands()
	c.over = time.After(10 * time.Second)
	for i := range crowdSize {
		c.wg.Go(func() {
			assert.NoError(t, gs[i%guards].WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
				c.book.enter(ctx, "k", "caller")()
				return nil
			}))
		})
		if (i+1)%50 == 0 {
			c.eventually(func() bool {
				n := 0
				for _, g := range gs {
					n += guard.InLine(g)
				}
				return n == i+1
			}, "%d waiting callers", i+1)
		}
	}
	return c
}

// disperse says how many scripts it took to wait, and lets all in.
func (c *crowd) disperse() (scripts int) {
	c.Helper()
	<-c.over
	scripts = c.scripts()
	c.Logf("%d scripts, %d messages", scripts, c.commands()["publish"])
	assert.Empty(c, c.book.entered())
	c.release(c.holder)
	c.wg.Wait()
	assert.Len(c, c.book.entered(), crowdSize)
	return scripts
}

// Callers of one process wait for the process, whose one claim asks once a second while
// it is in front of the queue. Of a thousand processes that wait, each asks once, and
// the first two once a second.
func TestWaitingCostsNextToNothing(t *testing.T) {
	t.Parallel()
	one, many := newCrowd(t, 1), newCrowd(t, crowdSize)
	assert.LessOrEqual(t, one.disperse(), 30)
	n := many.disperse()
	assert.GreaterOrEqual(t, n, crowdSize)
	assert.LessOrEqual(t, n, 1100)
}
