package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// The tests in package quorum are of one rule each, in virtual time, on scripted servers.
// Those in package quorum_test are on real ones.

const (
	nodeTimeout = time.Second // for one server's answer
	leaseTTL    = 3 * time.Second
)

var (
	errBroken  = errors.New("broken")
	errDial    = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	errRefused = &guardstore.RefusedError{Err: errors.New("WRONGTYPE")}
)

type (
	claimReply   = guardstore.ClaimReply
	renewReply   = guardstore.RenewReply
	releaseReply = guardstore.ReleaseReply
)

// Replies of one server, or of all.
var (
	busy     = claimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Holder: "other"}
	finished = claimReply{Status: guardstore.ClaimFinished}

	renewed      = renewReply{Held: true}
	renewLost    = renewReply{}
	renewRevoked = renewReply{Revoked: true}
)

// fake is one server. It keeps one lock, unless a test scripts its answers, and notes its calls.
type fake struct {
	tb testing.TB

	mu     sync.Mutex
	asked  []asked
	before map[string]func(ctx context.Context) error // by the name of the call; "" is everything
	closed bool

	holder   string
	fence    uint64
	last     uint64 // the highest fence so far
	finished map[string]bool

	acquire func(c guardstore.Claim) claimReply
	peek    *claimReply
	renew   func(g guardstore.Grant) renewReply
	release *releaseReply
	id      string
	onClose error
}

// asked is one call.
type asked struct {
	what    string // "acquire a-1~1"
	at      time.Time
	claim   guardstore.Claim
	grant   guardstore.Grant
	release guardstore.Release
}

// fakeQuorum is a store on scripted servers.
type fakeQuorum struct {
	*Store
	t     *testing.T
	nodes []*fake
}

// newFakeQuorum makes a quorum of n servers. It is closed when the test ends.
func newFakeQuorum(t *testing.T, n int, all bool) *fakeQuorum {
	s := &fakeQuorum{t: t}
	servers := make([]server, n)
	for i := range servers {
		f := &fake{
			tb: t, last: uint64(100 * (i + 1)), id: fmt.Sprint("server ", i),
			before: map[string]func(context.Context) error{}, finished: map[string]bool{},
		}
		s.nodes, servers[i] = append(s.nodes, f), f
	}
	s.Store = newStore(servers, nodeTimeout, all)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// virtually runs a test on a quorum of three in virtual time.
func virtually(t *testing.T, test func(t *testing.T, s *fakeQuorum)) {
	synctest.Test(t, func(t *testing.T) { test(t, newFakeQuorum(t, 3, false)) })
}

// run runs a subtest on a quorum of n in virtual time.
func run(t *testing.T, name string, n int, all bool, test func(t *testing.T, s *fakeQuorum)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, newFakeQuorum(t, n, all)) })
	})
}

// hangs answers nothing until time is up.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func fails(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// slow answers after a while.
func slow(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}

// late answers after the others.
func late(err error) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(time.Millisecond)
		return err
	}
}

// A change is what a test scripts on one server.
type change = func(f *fake)

// does has a server do something before it answers what. An error is its answer.
func does(what string, do func(ctx context.Context) error) change {
	return func(f *fake) { f.before[what] = do }
}

// says has a server answer an acquire, a renewal or a release with one reply.
func says(reply any) change {
	return func(f *fake) {
		switch r := reply.(type) {
		case claimReply:
			f.acquire = func(guardstore.Claim) claimReply { return r }
		case renewReply:
			f.renew = func(guardstore.Grant) renewReply { return r }
		case releaseReply:
			f.release = &r
		}
	}
}

// sees has a server answer a peek with one reply.
func sees(r claimReply) change { return func(f *fake) { f.peek = &r } }

// wiped has a server lose its data.
func wiped(f *fake) { f.holder, f.fence, f.finished = "", 0, map[string]bool{} }

// taken has another store's claim hold the lock on a server.
func taken(f *fake) { f.holder = "x-1~1" }

func nothing(*fake) {}

func both(a, b change) change { return func(f *fake) { a(f); b(f) } }

func (f *fake) set(changes ...change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range changes {
		c(f)
	}
}

// calls are those that begin with what, of one server, in order.
func (f *fake) calls(what string) (calls []asked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if strings.HasPrefix(a.what, what) {
			calls = append(calls, a)
		}
	}
	return calls
}

func (f *fake) count(what string) int { return len(f.calls(what)) }

// lastCall returns the last call whose text begins so.
func (f *fake) lastCall(what string) asked {
	calls := f.calls(what)
	require.NotEmpty(f.tb, calls, what)
	return calls[len(calls)-1]
}

// script makes one change on each of the first servers.
func (s *fakeQuorum) script(changes ...change) {
	for i, c := range changes {
		s.nodes[i].set(c)
	}
}

// each makes changes on all servers.
func (s *fakeQuorum) each(changes ...change) {
	for _, f := range s.nodes {
		f.set(changes...)
	}
}

// forget drops what was asked so far.
func (s *fakeQuorum) forget() { s.each(func(f *fake) { f.asked = nil }) }

// counts checks how often each server was asked, when nothing can go on without time.
func (s *fakeQuorum) counts(what string, want ...int) {
	s.t.Helper()
	synctest.Wait()
	var n []int
	for _, f := range s.nodes {
		n = append(n, f.count(what))
	}
	assert.Equal(s.t, want, n, what)
}

// holders checks which owners hold the lock, by server.
func (s *fakeQuorum) holders(want ...string) {
	s.t.Helper()
	synctest.Wait()
	var owners []string
	s.each(func(f *fake) { owners = append(owners, f.holder) })
	assert.Equal(s.t, want, owners)
}

// firstAsked is the server that was asked before the others.
func (s *fakeQuorum) firstAsked(what string) int {
	first := slices.MinFunc(s.nodes, func(a, b *fake) int { return a.calls(what)[0].at.Compare(b.calls(what)[0].at) })
	return slices.Index(s.nodes, first)
}

// known checks how many claims the store knows.
func (s *fakeQuorum) known(want int) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Len(s.t, s.claims, want)
}

// claim makes a claim that does not wait.
func claim(owner string) guardstore.Claim {
	return guardstore.Claim{Key: "k", Owner: owner, TTL: leaseTTL, Metadata: "meta"}
}

// queued is a claim that waits from now on.
func queued(owner string) guardstore.Claim {
	c := claim(owner)
	c.Queue = true
	return c
}

// waiting is a claim that has a place in the queue.
func waiting(owner string) guardstore.Claim {
	c := queued(owner)
	c.Ticket = 3
	return c
}

func (s *fakeQuorum) mustAcquire(c guardstore.Claim) claimReply {
	s.t.Helper()
	r, err := s.Acquire(s.t.Context(), c)
	require.NoError(s.t, err)
	return r
}

// acquireFails checks the error of an acquire, and that there is no reply.
func (s *fakeQuorum) acquireFails(ctx context.Context, c guardstore.Claim, text string) {
	s.t.Helper()
	r, err := s.Acquire(ctx, c)
	require.ErrorContains(s.t, err, text)
	assert.Zero(s.t, r)
}

// goAcquire acquires in a goroutine.
func (s *fakeQuorum) goAcquire(owner string) <-chan claimReply {
	reply := make(chan claimReply, 1)
	go func() {
		r, err := s.Acquire(s.t.Context(), claim(owner))
		assert.NoError(s.t, err)
		reply <- r
	}()
	return reply
}

// hold acquires the lock, and lets all servers answer.
func (s *fakeQuorum) hold() guardstore.Grant {
	s.t.Helper()
	r := s.mustAcquire(claim("a-1"))
	require.Equal(s.t, guardstore.ClaimHeld, r.Status)
	synctest.Wait()
	return guardstore.Grant{Key: "k", Owner: r.Owner, Fence: r.Fence, TTL: leaseTTL, Depth: 1, Metadata: "meta"}
}

func (s *fakeQuorum) mustRelease(g guardstore.Grant) releaseReply {
	s.t.Helper()
	r, err := s.Release(s.t.Context(), releaseOf(g))
	require.NoError(s.t, err)
	return r
}

func releaseOf(g guardstore.Grant) guardstore.Release {
	return guardstore.Release{Key: g.Key, Owner: g.Owner, Fence: g.Fence, TTL: g.TTL}
}

// releaseClaim releases a claim that may not hold, as its caller left.
func (s *fakeQuorum) releaseClaim(owner string, tombstone bool) {
	s.t.Helper()
	_, err := s.Release(s.t.Context(), guardstore.Release{Key: "k", Owner: owner, TTL: leaseTTL, Tombstone: tombstone})
	require.NoError(s.t, err)
}

func (s *fakeQuorum) renewOne(g guardstore.Grant) renewReply {
	s.t.Helper()
	replies := s.Renew(s.t.Context(), []guardstore.Grant{g})
	require.Len(s.t, replies, 1)
	return replies[0]
}

// renewHeld renews a hold, and lets what follows happen.
func (s *fakeQuorum) renewHeld(g guardstore.Grant) {
	s.t.Helper()
	require.Equal(s.t, renewed, s.renewOne(g))
	synctest.Wait()
}

// takes says how long something takes.
func takes(do func()) time.Duration {
	begun := time.Now()
	do()
	return time.Since(begun)
}

// called notes a call, does what the test has it do first, and then answers.
func called[T any](ctx context.Context, f *fake, a asked, answer func() T) (reply T, err error) {
	f.mu.Lock()
	a.at = time.Now()
	f.asked = append(f.asked, a)
	what, _, _ := strings.Cut(a.what, " ")
	do := f.before[what]
	if do == nil {
		do = f.before[""]
	}
	f.mu.Unlock()
	if do != nil {
		err = do(ctx)
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return reply, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return answer(), nil
}

func (f *fake) Acquire(ctx context.Context, c guardstore.Claim) (claimReply, error) {
	return called(ctx, f, asked{what: "acquire " + c.Owner, claim: c}, func() claimReply {
		switch {
		case f.acquire != nil:
			return f.acquire(c)
		case f.finished[c.Owner]:
			return finished
		case f.holder == "":
			f.holder, f.fence = c.Owner, max(f.last, c.FenceAbove)+1
			f.last = f.fence
		case f.holder != c.Owner:
			return busy
		}
		return claimReply{Status: guardstore.ClaimHeld, Fence: f.fence}
	})
}

func (f *fake) Peek(ctx context.Context, c guardstore.Claim) (claimReply, error) {
	return called(ctx, f, asked{what: "peek " + c.Owner, claim: c}, func() claimReply {
		switch {
		case f.peek != nil:
			return *f.peek
		case f.holder != "":
			return busy
		}
		return claimReply{Status: guardstore.ClaimBusy}
	})
}

func (f *fake) Renew(ctx context.Context, batch []guardstore.Grant) (replies []renewReply) {
	for _, g := range batch {
		r, err := called(ctx, f, asked{what: "renew " + g.Owner, grant: g}, func() renewReply {
			if f.renew != nil {
				return f.renew(g)
			}
			return renewReply{Held: f.holder == g.Owner && f.fence == g.Fence}
		})
		r.Err = err
		replies = append(replies, r)
	}
	return replies
}

func (f *fake) Release(ctx context.Context, r guardstore.Release) (releaseReply, error) {
	return called(ctx, f, asked{what: "release " + r.Owner, release: r}, func() releaseReply {
		switch {
		case f.release != nil:
			return *f.release
		case f.holder == r.Owner:
			f.holder, f.finished[r.Owner] = "", true
			return releaseReply{Status: guardstore.ReleaseDone}
		}
		f.finished[r.Owner] = f.finished[r.Owner] || r.Tombstone
		return releaseReply{Status: guardstore.ReleaseLost}
	})
}

func (f *fake) Rollback(ctx context.Context, c guardstore.Claim, tombstone, notify bool) error {
	what := "rollback " + c.Owner
	if tombstone {
		what += " tombstone"
	}
	if notify {
		what += " notify"
	}
	_, err := called(ctx, f, asked{what: what}, func() bool {
		if f.holder == c.Owner {
			f.holder = ""
		}
		f.finished[c.Owner] = f.finished[c.Owner] || tombstone
		return true
	})
	return err
}

func (f *fake) RaiseFence(ctx context.Context, c guardstore.Claim, fence uint64) (bool, error) {
	return called(ctx, f, asked{what: fmt.Sprint("raise ", c.Owner, " ", fence)}, func() bool {
		f.last = max(f.last, fence)
		return f.holder == c.Owner
	})
}

func (f *fake) ID(ctx context.Context) (string, error) {
	return called(ctx, f, asked{what: "id"}, func() string { return f.id })
}

func (f *fake) Announce(ctx context.Context, instance, name string, life time.Duration) error {
	_, err := called(ctx, f, asked{what: fmt.Sprint("announce ", instance, " ", name, " ", life)}, func() bool { return true })
	return err
}

func (f *fake) Listen(context.Context, string, guardstore.Listener) {}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return f.onClose
}
