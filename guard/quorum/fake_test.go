package quorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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
	held     = claimReply{Status: guardstore.ClaimHeld, Fence: 7}
	busy     = claimReply{Status: guardstore.ClaimBusy, Remaining: time.Second}
	finished = claimReply{Status: guardstore.ClaimFinished}

	renewed      = renewReply{Held: true}
	renewLost    = renewReply{}
	renewRevoked = renewReply{Revoked: true}
)

// fake is one server. It keeps one lock, unless a test scripts its answers, and notes its calls.
type fake struct {
	tb  testing.TB
	seq *atomic.Int64 // of the calls to all servers

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
	listen  func(ctx context.Context, l guardstore.Listener)
	onClose error
}

// asked is one call.
type asked struct {
	what    string // "acquire a-1~1"
	seq     int64
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
	seq   atomic.Int64
}

// newFakeQuorum makes a quorum of n servers. It is closed when the test ends.
func newFakeQuorum(t *testing.T, n int, all bool) *fakeQuorum {
	t.Helper()
	s := &fakeQuorum{t: t}
	servers := make([]server, n)
	for i := range servers {
		f := &fake{
			tb: t, seq: &s.seq, last: uint64(100 * (i + 1)),
			before: map[string]func(context.Context) error{}, finished: map[string]bool{}, id: fmt.Sprint("server ", i),
		}
		s.nodes, servers[i] = append(s.nodes, f), f
	}
	s.Store = newStore(servers, nodeTimeout, all)
	t.Cleanup(func() {
		select {
		case <-s.closing:
		default:
			assert.NoError(t, s.Close())
		}
	})
	return s
}

// virtually runs a test on a quorum of three in virtual time.
func virtually(t *testing.T, test func(t *testing.T, s *fakeQuorum)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newFakeQuorum(t, 3, false)) })
}

// run runs a subtest on a quorum of n in virtual time.
func run(t *testing.T, name string, n int, all bool, test func(t *testing.T, s *fakeQuorum)) {
	t.Helper()
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
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
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
	assert.Equal(s.t, want, s.owners())
}

func (s *fakeQuorum) owners() (owners []string) {
	s.each(func(f *fake) { owners = append(owners, f.holder) })
	return owners
}

// firstAsked is the server that was asked first.
func (s *fakeQuorum) firstAsked(what string) (node int) {
	first := int64(math.MaxInt64)
	for i, f := range s.nodes {
		if calls := f.calls(what); len(calls) > 0 && calls[0].seq < first {
			node, first = i, calls[0].seq
		}
	}
	return node
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

// note notes a call, and returns the answer in place of the usual one.
func (f *fake) note(ctx context.Context, a asked) error {
	f.mu.Lock()
	a.at, a.seq = time.Now(), f.seq.Add(1)
	f.asked = append(f.asked, a)
	what, _, _ := strings.Cut(a.what, " ")
	do := f.before[what]
	if do == nil {
		do = f.before[""]
	}
	f.mu.Unlock()
	if do == nil {
		return ctx.Err()
	}
	if err := do(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

func (f *fake) Acquire(ctx context.Context, c guardstore.Claim) (claimReply, error) {
	if err := f.note(ctx, asked{what: "acquire " + c.Owner, claim: c}); err != nil {
		return claimReply{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.acquire != nil:
		return f.acquire(c), nil
	case f.finished[c.Owner]:
		return claimReply{Status: guardstore.ClaimFinished}, nil
	case f.holder == "":
		f.holder, f.fence = c.Owner, max(f.last, c.FenceAbove)+1
		f.last = f.fence
	case f.holder != c.Owner:
		return claimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Holder: "other"}, nil
	}
	return claimReply{Status: guardstore.ClaimHeld, Fence: f.fence}, nil
}

func (f *fake) Peek(ctx context.Context, c guardstore.Claim) (claimReply, error) {
	if err := f.note(ctx, asked{what: "peek " + c.Owner, claim: c}); err != nil {
		return claimReply{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.peek != nil:
		return *f.peek, nil
	case f.holder != "":
		return claimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Holder: "other"}, nil
	}
	return claimReply{Status: guardstore.ClaimBusy}, nil
}

func (f *fake) Renew(ctx context.Context, batch []guardstore.Grant) []renewReply {
	replies := make([]renewReply, len(batch))
	for i, g := range batch {
		if err := f.note(ctx, asked{what: "renew " + g.Owner, grant: g}); err != nil {
			replies[i].Err = err
			continue
		}
		f.mu.Lock()
		if f.renew != nil {
			replies[i] = f.renew(g)
		} else {
			replies[i].Held = f.holder == g.Owner && f.fence == g.Fence
		}
		f.mu.Unlock()
	}
	return replies
}

func (f *fake) Release(ctx context.Context, r guardstore.Release) (releaseReply, error) {
	if err := f.note(ctx, asked{what: "release " + r.Owner, release: r}); err != nil {
		return releaseReply{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.release != nil:
		return *f.release, nil
	case f.holder == r.Owner:
		f.holder, f.finished[r.Owner] = "", true
		return releaseReply{Status: guardstore.ReleaseDone}, nil
	case r.Tombstone:
		f.finished[r.Owner] = true
	}
	return releaseReply{Status: guardstore.ReleaseLost}, nil
}

func (f *fake) Rollback(ctx context.Context, c guardstore.Claim, tombstone, notify bool) error {
	what := "rollback " + c.Owner
	if tombstone {
		what += " tombstone"
	}
	if notify {
		what += " notify"
	}
	if err := f.note(ctx, asked{what: what, claim: c}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holder == c.Owner {
		f.holder = ""
	}
	f.finished[c.Owner] = f.finished[c.Owner] || tombstone
	return nil
}

func (f *fake) RaiseFence(ctx context.Context, c guardstore.Claim, fence uint64) (bool, error) {
	if err := f.note(ctx, asked{what: fmt.Sprint("raise ", c.Owner, " ", fence)}); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = max(f.last, fence)
	return f.holder == c.Owner, nil
}

func (f *fake) ID(ctx context.Context) (string, error) {
	err := f.note(ctx, asked{what: "id"})
	return f.id, err
}

func (f *fake) Announce(ctx context.Context, instance, name string, life time.Duration) error {
	return f.note(ctx, asked{what: fmt.Sprint("announce ", instance, " ", name, " ", life)})
}

func (f *fake) Listen(ctx context.Context, _ string, l guardstore.Listener) {
	_ = f.note(ctx, asked{what: "listen"})
	if f.listen != nil {
		f.listen(ctx, l)
		return
	}
	<-ctx.Done()
}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.False(f.tb, f.closed, "closed twice")
	f.closed = true
	return f.onClose
}
