package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stage plays schedules on the scripts, with a clock that is set. Owners are named for their
// instance: "a-0.1" is a reader of instance a, "b-3.1" one with Limit(3), "x-1" exclusive.
type stage struct {
	*play

	t      *testing.T
	bids   map[string]*bid
	places map[string]string
}

func newStage(t *testing.T, cluster bool) *stage {
	t.Helper()
	s := &stage{newPlay(t, 1), t, map[string]*bid{}, map[string]string{}}
	s.key, s.counts = "guard:{k}", "1"
	if cluster {
		s.counts = "0"
	}
	s.advance(time.Minute)
	return s
}

func (s *stage) bid(owner string) *bid {
	if s.bids[owner] == nil {
		limit := 1
		if n, _ := fmt.Sscanf(strings.TrimPrefix(owner, bidder(owner)), "-%d.", &limit); n == 0 || !strings.Contains(owner, ".") {
			limit = 1
		}
		s.bids[owner] = &bid{owner: owner, limit: limit, place: "0", queues: true, ttl: 30 * time.Second}
		s.ears.Subscribe("guard:grant:" + bidder(owner))
	}
	return s.bids[owner]
}

// deaf is for an instance that is gone.
func (s *stage) deaf(owner string) { s.ears.Unsubscribe("guard:grant:" + bidder(owner)) }

// asks gives the state of the lock for an owner that waits in the queue: held, busy or over.
func (s *stage) asks(owner string) string { return s.asking(owner, true) }

// tries is asks for one that does not wait.
func (s *stage) tries(owner string) string { return s.asking(owner, false) }

func (s *stage) asking(owner string, queues bool) string {
	s.t.Helper()
	b, place := s.bid(owner), ""
	if queues {
		place = b.place
	}
	list := said(s.exec(b, "acquire", acquireArgs(owner, s.channels(), b.ttl.Milliseconds(), place, "of "+owner, "0"), ""))
	switch list[0] {
	case int64(1):
		b.fence = 1 // it has one
		return "held"
	case int64(0):
		if queues {
			b.place = list[3].(string)
		}
		return "busy"
	}
	return "over"
}

// leaves releases, or gives up.
func (s *stage) leaves(owner string, tombstone int) any {
	b := s.bid(owner)
	return s.exec(b, "release", releaseArgs(owner, s.channels(), b.ttl.Milliseconds(), 0, tombstone, 0), "")
}

func (s *stage) all(want string, owners ...string) {
	s.t.Helper()
	for _, owner := range owners {
		require.Equal(s.t, want, s.asks(owner), owner)
	}
}

// TestLimitSchedules_AWaitingWriterKeepsReadersOut for as long as it asks, and for seconds when it is dead.
func TestLimitSchedules_AWaitingWriterKeepsReadersOut(t *testing.T) {
	for _, c := range []struct {
		name          string
		deaf, cluster bool
		within        time.Duration
	}{
		{"its host is gone", true, false, 3 * time.Second},
		{"it hangs, and its connection is open", false, false, 7 * time.Second},
		{"on a cluster, which does not count receivers", true, true, 7 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, c.cluster)
			s.all("held", "a-0.1")
			for range 30 {
				s.all("busy", "x-1", "b-0.1")
				s.advance(900 * time.Millisecond)
				s.all("held", "a-0.1")
			}
			if c.deaf {
				s.deaf("x-1")
			}
			waited := time.Duration(0)
			for s.asks("b-0.1") == "busy" {
				s.advance(time.Second)
				waited += time.Second
				require.LessOrEqual(t, waited, c.within)
			}
			assert.GreaterOrEqual(t, waited, 2*time.Second, "it was not even given the time to ask")
			if !c.deaf {
				assert.Equal(t, "busy", s.asks("x-1"), "it is back, and waits at its place")
				s.all("busy", "c-0.1")
				s.leaves("a-0.1", 0)
				s.leaves("b-0.1", 0)
				s.all("held", "x-1")
			}
		})
	}
}

// TestLimitSchedules_AFrontThatWasFurtherBackIsNotTakenForDead: one further back asks less often, until it
// is told that it is in front.
func TestLimitSchedules_AFrontThatWasFurtherBackIsNotTakenForDead(t *testing.T) {
	s := newStage(t, false)
	s.all("held", "a-0.1")
	s.all("busy", "x-1", "y-1", "z-1", "b-0.1")
	for range 8 { // z is the third, and need not ask
		s.advance(time.Second)
		s.all("busy", "x-1", "y-1")
	}
	s.leaves("x-1", 0)
	s.leaves("y-1", 0)
	s.all("busy", "b-0.1")
	s.advance(900 * time.Millisecond) // z was told, and asks a second later
	s.all("busy", "b-0.1", "z-1")
	assert.Equal(t, []string{"z-1", "b-0.1"}, s.waiting())
}

func TestLimitSchedules_AGrantToADeadReaderGoesOn(t *testing.T) {
	s := newStage(t, true)
	s.all("held", "x-1")
	s.all("busy", "a-0.1", "b-0.1", "y-1", "c-0.1")
	require.EqualValues(t, 1, s.leaves("x-1", 0)) // grants to a, which is dead, and to b
	s.all("held", "b-0.1")
	s.all("busy", "y-1")
	s.advance(2100 * time.Millisecond)
	s.all("busy", "c-0.1", "y-1")
	require.EqualValues(t, 1, s.leaves("b-0.1", 0))
	s.all("held", "y-1")
}

func TestLimitSchedules_AGrantThatIsGivenUpLetsTheOthersIn(t *testing.T) {
	s := newStage(t, false)
	s.all("held", "x-1")
	s.all("busy", "a-0.1", "b-0.1", "c-2.1")
	s.leaves("x-1", 0) // grants to a
	require.EqualValues(t, 1, s.leaves("a-0.1", 1))
	assert.Len(t, s.inside(), 2)
	s.all("held", "b-0.1", "c-2.1")
	s.all("over", "a-0.1")
}

func TestLimitSchedules_ALateCommandOfOneThatLeft(t *testing.T) {
	s := newStage(t, false)
	s.all("held", "a-0.1", "b-0.1")
	s.leaves("a-0.1", 1)
	s.all("over", "a-0.1")
	require.EqualValues(t, 2, s.leaves("a-0.1", 1))
	s.leaves("b-0.1", 0)
	require.EqualValues(t, 2, s.leaves("b-0.1", 0))
	s.all("over", "b-0.1")
	assert.Empty(t, s.inside())
}

func TestLimitSchedules_ALockThatIsDeletedUnderItsReaders(t *testing.T) {
	s := newStage(t, false)
	s.all("held", "a-0.1")
	fence := s.inside()["a-0.1"].fence
	s.redis.Del(s.key)
	s.all("held", "x-1")
	a := s.bid("a-0.1")
	require.EqualValues(t, 0, s.exec(a, "renew", []any{"a-0.1", fence, 30000, 1, ""}, ""))
	require.EqualValues(t, 0, s.leaves("a-0.1", 0))
	assert.Contains(t, s.inside(), "x-1")
	s.leaves("x-1", 0)
	s.all("held", "b-0.1")
	require.EqualValues(t, 0, s.exec(a, "renew", []any{"a-0.1", fence, 30000, 1, ""}, ""))
}

// TestLimitSchedules_ManyReadersStartInBatches: each that was granted the lock goes on serving.
func TestLimitSchedules_ManyReadersStartInBatches(t *testing.T) {
	for _, dead := range []bool{false, true} {
		t.Run(fmt.Sprint("dead ", dead), func(t *testing.T) {
			s := newStage(t, true)
			s.all("held", "x-1")
			var readers []string
			for i := range 40 {
				readers = append(readers, fmt.Sprintf("r-0.%d", i+1))
			}
			s.all("busy", readers...)
			s.leaves("x-1", 0)
			assert.Len(t, s.inside(), 16)
			s.all("held", readers[0]) // 16 more are let in by it
			assert.Len(t, s.inside(), 32)
			if dead {
				s.leaves(readers[0], 0)
				s.advance(2100 * time.Millisecond)
				s.all("held", readers[35]) // by its own pulse
				return
			}
			s.all("held", readers[1])
			assert.Len(t, s.inside(), 40)
			s.all("held", readers...)
		})
	}
}

// TestLimitSchedules_WhoGetsALockThatLapsed: a claim that does not wait does not get in beside an exclusive
// one that is granted the lock in the same step.
func TestLimitSchedules_WhoGetsALockThatLapsed(t *testing.T) {
	s := newStage(t, false)
	s.all("held", "a-0.1")
	s.all("busy", "x-1")
	s.advance(25 * time.Second)
	s.all("busy", "x-1")
	s.advance(5100 * time.Millisecond)
	require.Equal(t, "busy", s.tries("b-0.1"))
	s.all("held", "x-1")
	assert.Len(t, s.inside(), 1)
}

// TestLimitSchedules_ADeadHolderCostsItsOwnTTL, whoever else is inside.
func TestLimitSchedules_ADeadHolderCostsItsOwnTTL(t *testing.T) {
	s := newStage(t, false)
	s.bid("dead-2.1").ttl = 5 * time.Second
	s.all("held", "dead-2.1", "a-2.1")
	s.all("busy", "b-2.1")
	s.advance(4900 * time.Millisecond)
	s.all("busy", "b-2.1")
	s.advance(200 * time.Millisecond)
	s.all("held", "b-2.1")
}
