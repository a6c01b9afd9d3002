package storetest

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// TestLimits runs the part of the contract about claims that tolerate others, see
// guardstore.Claim.Limit. A store without it excludes more than it has to. That is safe: on such a
// store, Limit and Shared are exclusive locks.
func TestLimits(t *testing.T, newStore func(tb testing.TB) guardstore.Store) {
	t.Helper()
	run(t, "limits", newStore, limitContract)
}

var limitContract = []contractRow{
	{"as many get in as the limit says", (*storeTest).limitCounts},
	{"the strictest one inside rules", (*storeTest).limitStrictest},
	{"an exclusive lock is alone", (*storeTest).limitExclusive},
	{"each hold has a ttl of its own, and a renewal revives none", (*storeTest).limitLapse},
	{"asking again confirms the hold", (*storeTest).limitAgain},
	{"fences grow, of readers and of writers", (*storeTest).limitFences},
	{"a release that runs twice frees one", (*storeTest).limitReleaseTwice},
	{"a claim that is given up leaves nothing", (*storeTest).limitGivenUp},
	{"no reader passes a writer that waits", (*storeTest).limitWriterIsNotPassed},
	{"a writer that gives up keeps no reader out", (*storeTest).limitWriterLeaves},
	{"readers that wait together start together", (*storeTest).limitTogether},
	{"a dead writer in front is passed over", (*storeTest).limitDeadFront},
	{"an exclusive claim does not wait for the dead", (*storeTest).limitDeadHolders},
}

// limited is a claim with a limit.
func (s *storeTest) limited(instance string, number uint64, limit guardstore.Limit) guardstore.Claim {
	c := s.claim(guardstore.NewOwner(instance, limit, number))
	c.Limit = limit
	return c
}

// anyLimit is for claims that any limit may keep out, such as that of a holder which has left just now.
const anyLimit guardstore.Limit = -1

// isKeptOut asks for a claim that must not get in.
func (s *storeTest) isKeptOut(c guardstore.Claim, limit guardstore.Limit) guardstore.ClaimReply {
	s.Helper()
	r := s.asks(c)
	s.check(r.Status == guardstore.ClaimBusy && (r.Limit == limit || limit == anyLimit), "%s: %+v, want busy by a limit of %d", c.Owner, r, limit)
	return r
}

func (s *storeTest) limitCounts() {
	a := s.gets(s.limited("a", 1, 3))
	s.gets(s.limited("b", 1, 3))
	s.gets(s.limited("a", 2, 3))
	r := s.isKeptOut(s.limited("c", 1, 3), 3)
	s.check(r.Remaining > contractTTL-5*time.Second && r.Remaining <= contractTTL, "remaining %v", r.Remaining)
	s.check(r.Holder == "of "+guardstore.NewOwner("a", 3, 1), "holder %q", r.Holder)
	s.leaves(a)
	s.gets(s.limited("c", 1, 3))
	s.isKeptOut(s.limited("d", 1, 3), 3)
	s.isKeptOut(s.limited("d", 2, guardstore.Unlimited), 3)
}

func (s *storeTest) limitStrictest() {
	five := s.gets(s.limited("a", 1, 5))
	two := s.gets(s.limited("b", 1, 2))
	s.isKeptOut(s.limited("c", 1, 5), 2)
	s.isKeptOut(s.limited("c", 2, guardstore.Unlimited), 2)
	s.leaves(two)
	s.gets(s.limited("c", 3, 5))
	s.isKeptOut(s.limited("b", 2, 2), anyLimit)
	s.gets(s.limited("c", 4, guardstore.Unlimited))
	s.leaves(five)
	s.isKeptOut(s.limited("b", 3, 2), anyLimit)
}

func (s *storeTest) limitExclusive() {
	x := s.gets(s.limited("x", 1, guardstore.Exclusive))
	s.isKeptOut(s.limited("a", 1, guardstore.Unlimited), 0)
	s.isKeptOut(s.limited("a", 2, 3), 0)
	s.leaves(x)
	a, b := s.gets(s.limited("a", 3, guardstore.Unlimited)), s.gets(s.limited("b", 1, guardstore.Unlimited))
	s.isKeptOut(s.limited("x", 2, guardstore.Exclusive), 0)
	s.leaves(a)
	s.isKeptOut(s.limited("x", 2, 0), 0)
	s.leaves(b)
	s.gets(s.limited("x", 2, guardstore.Exclusive))
}

func (s *storeTest) limitLapse() {
	short := s.limited("a", 1, 2)
	short.TTL = 300 * time.Millisecond
	a, b := s.gets(short), s.gets(s.limited("b", 1, 2))
	r := s.isKeptOut(s.limited("c", 1, 2), 2)
	s.check(r.Remaining <= short.TTL, "remaining %v: the first one ends sooner", r.Remaining)
	time.Sleep(r.Remaining + 5*time.Millisecond)
	s.renewed(a, false)
	c := s.gets(s.limited("c", 1, 2))
	s.renewed(a, false)
	s.release(a, false, guardstore.ReleaseLost)
	s.renewed(b, true)
	s.renewed(c, true)
	b.Fence = c.Fence
	s.renewed(b, false)
	s.isKeptOut(s.limited("d", 1, 2), 2)
}

func (s *storeTest) limitAgain() {
	c := s.limited("a", 1, 2)
	first, second := s.gets(c), s.gets(c)
	s.check(first.Fence == second.Fence, "fences %d and %d", first.Fence, second.Fence)
	s.gets(s.limited("b", 1, 2))
	c.TTL = 100 * time.Millisecond
	s.gets(c)
	s.check(s.isKeptOut(s.limited("c", 1, 2), 2).Remaining > contractTTL-5*time.Second, "shortened")
	c.FenceAbove = first.Fence + 1000
	third := s.gets(c)
	s.check(third.Fence > c.FenceAbove, "fence %d, want more than %d", third.Fence, c.FenceAbove)
	s.setDepth(third, 2, true)
	s.leaves(third)
	s.setDepth(third, 2, false)
}

func (s *storeTest) limitFences() {
	high := uint64(0)
	next := func(c guardstore.Claim) guardstore.Grant {
		s.Helper()
		g := s.gets(c)
		s.check(g.Fence > high && g.Fence < 1<<53, "fence %d after %d", g.Fence, high)
		high = g.Fence
		return g
	}
	for i := range uint64(3) {
		s.leaves(next(s.limited("x", i, guardstore.Exclusive)))
		a := next(s.limited("a", i, guardstore.Unlimited))
		b := next(s.limited("b", i, 3))
		s.leaves(b)
		s.leaves(a)
	}
}

func (s *storeTest) limitReleaseTwice() {
	a, b := s.gets(s.limited("a", 1, 2)), s.gets(s.limited("b", 1, 2))
	s.leaves(a)
	s.again(guardstore.Release{Owner: a.Owner, Fence: a.Fence, Limit: 2})
	s.renewed(b, true)
	s.gets(s.limited("c", 1, 2))
	s.isKeptOut(s.limited("d", 1, 2), 2)
}

func (s *storeTest) limitGivenUp() {
	a, late := s.limited("a", 1, 2), s.limited("b", 1, 2)
	grant := s.gets(a)
	s.releases(guardstore.Release{Owner: a.Owner, Tombstone: true, Limit: 2}, guardstore.ReleaseDone)
	s.releases(guardstore.Release{Owner: late.Owner, Tombstone: true, Limit: 2}, guardstore.ReleaseLost)
	s.finished(a)
	s.finished(queued(late))
	s.renewed(grant, false)
	s.gets(s.limited("x", 1, guardstore.Exclusive))
}

func (s *storeTest) limitWriterIsNotPassed() {
	x := s.listen("x")
	a := s.gets(s.limited("a", 1, guardstore.Unlimited))
	writer := queued(s.limited("x", 1, guardstore.Exclusive))
	s.check(s.asks(writer).Ticket > 0, "the writer is not queued")
	s.isKeptOut(s.limited("b", 1, guardstore.Unlimited), 0)
	reader := queued(s.limited("b", 2, guardstore.Unlimited))
	s.listen("b")
	s.check(s.asks(reader).Ahead == 1, "it does not stand behind the writer")
	s.leaves(a)
	x.receives(guardstore.Notification{Owner: writer.Owner})
	s.check(s.asks(reader).Status == guardstore.ClaimBusy, "the reader passed the writer")
	s.leaves(s.gets(writer))
	s.getsWithin(grantTime, reader)
}

func (s *storeTest) limitWriterLeaves() {
	b := s.listen("b")
	a := s.gets(s.limited("a", 1, guardstore.Unlimited))
	writer, reader := queued(s.limited("x", 1, guardstore.Exclusive)), queued(s.limited("b", 1, guardstore.Unlimited))
	s.listen("x")
	s.asks(writer)
	s.asks(reader)
	s.releases(guardstore.Release{Owner: writer.Owner, Tombstone: true}, guardstore.ReleaseLost)
	b.receives(guardstore.Notification{Owner: reader.Owner})
	s.leaves(s.gets(reader))
	s.leaves(a)
}

func (s *storeTest) limitTogether() {
	x := s.gets(s.limited("x", 1, guardstore.Exclusive))
	b := s.listen("b")
	s.listen("a")
	first := queued(s.limited("a", 1, guardstore.Unlimited))
	s.asks(first)
	var others []guardstore.Claim
	for i := range uint64(3) {
		others = append(others, queued(s.limited("b", i, guardstore.Unlimited)))
		s.asks(others[i])
	}
	writer := queued(s.limited("b", 9, guardstore.Exclusive))
	s.asks(writer)
	s.leaves(x)
	a := s.gets(first)
	for _, c := range others {
		b.receives(guardstore.Notification{Owner: c.Owner})
		s.leaves(s.gets(c))
	}
	s.isKeptOut(writer, 0)
	s.leaves(a)
	s.gets(writer)
}

func (s *storeTest) limitDeadFront() {
	s.listen("b")
	s.gets(s.limited("a", 1, guardstore.Unlimited))
	s.asks(queued(s.limited("dead", 1, guardstore.Exclusive)))
	s.getsWithin(grantTime, queued(s.limited("b", 1, guardstore.Unlimited)))
}

func (s *storeTest) limitDeadHolders() {
	for i := range uint64(3) {
		c := s.limited("a", i, guardstore.Unlimited)
		c.TTL = 100 * time.Millisecond
		s.gets(c)
	}
	long := s.gets(s.limited("b", 1, guardstore.Unlimited))
	s.leaves(long)
	time.Sleep(110 * time.Millisecond)
	s.gets(s.limited("x", 1, guardstore.Exclusive))
}
