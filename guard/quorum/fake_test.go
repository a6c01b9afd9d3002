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
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// The tests in package quorum are of one rule each, in virtual time, on servers that do as
// they are told. Those in package quorum_test are on real ones.

const (
	nodeTimeout = time.Second // for one server's answer
	leaseTTL    = 3 * time.Second
)

var (
	errBroken  = errors.New("broken")
	errDial    = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	errRefused = &guardstore.RefusedError{Err: errors.New("WRONGTYPE")}
)

// fake is one server. It keeps one lock by itself; a test may put its own answers in place of
// that. What it is asked for is noted.
type fake struct {
	tb         testing.TB
	fakeQuorum *fakeQuorum

	mu     sync.Mutex
	asked  []asked
	before map[string]func(ctx context.Context) error // by what is asked; "" is everything
	closed bool

	holder string
	fence  uint64
	last   uint64 // the highest fence so far
	over   map[string]bool

	acquire func(c guardstore.Claim) guardstore.ClaimReply
	peek    func(c guardstore.Claim) guardstore.ClaimReply
	renew   func(g guardstore.Grant) guardstore.RenewReply
	release func(r guardstore.Release) guardstore.ReleaseReply
	raised  func() bool
	id      string
	listen  func(ctx context.Context, l guardstore.Listener)
	onClose error
}

// asked is one call.
type asked struct {
	node    int
	what    string // "acquire a-1~1"
	seq     int64  // among all servers
	at      time.Time
	claim   guardstore.Claim
	grant   guardstore.Grant
	release guardstore.Release
}

// fakeQuorum is a store on servers that a test scripts.
type fakeQuorum struct {
	*Store
	nodes []*fake
	seq   atomic.Int64
}

// newFakeQuorum makes a quorum of so many servers. It is closed when the test is over.
func newFakeQuorum(t *testing.T, n int, all bool) *fakeQuorum {
	t.Helper()
	s := &fakeQuorum{}
	servers := make([]server, n)
	for i := range servers {
		f := &fake{
			tb: t, fakeQuorum: s, last: uint64(100 * (i + 1)), //nolint:gosec // small
			before: map[string]func(context.Context) error{}, over: map[string]bool{}, id: fmt.Sprint("server ", i),
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

// on has a server do something before it answers what: an error is its answer.
func (f *fake) on(what string, do func(ctx context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before[what] = do
}

func (f *fake) set(change func(f *fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// wipe has a server lose its data.
func (f *fake) wipe() {
	f.set(func(f *fake) { f.holder, f.fence, f.over = "", 0, map[string]bool{} })
}

func (f *fake) heldBy() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holder
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

// forget drops what was asked so far.
func (s *fakeQuorum) forget() {
	for _, f := range s.nodes {
		f.set(func(f *fake) { f.asked = nil })
	}
}

// counts says how often each server was asked.
func (s *fakeQuorum) counts(what string) (n []int) {
	for _, f := range s.nodes {
		n = append(n, f.count(what))
	}
	return n
}

// order says which servers were asked, in that order.
func (s *fakeQuorum) order(what string) (nodes []int) {
	var all []asked
	for i, f := range s.nodes {
		for _, a := range f.calls(what) {
			a.node = i
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b asked) int { return cmp.Compare(a.seq, b.seq) })
	for _, a := range all {
		nodes = append(nodes, a.node)
	}
	return nodes
}

// holders are the owners that hold the lock, by server.
func (s *fakeQuorum) holders() (owners []string) {
	for _, f := range s.nodes {
		owners = append(owners, f.heldBy())
	}
	return owners
}

func (s *fakeQuorum) each(change func(f *fake)) {
	for _, f := range s.nodes {
		f.set(change)
	}
}

// take has an owner that is not of this store hold the lock on some servers.
func (s *fakeQuorum) take(nodes ...int) {
	for _, i := range nodes {
		s.nodes[i].set(func(f *fake) { f.holder = "x-1~1" })
	}
}

// known is how many claims the store knows.
func (s *fakeQuorum) known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claims)
}

// claim is one that does not wait.
func claim(owner string) guardstore.Claim {
	return guardstore.Claim{Key: "k", Owner: owner, TTL: leaseTTL, Metadata: "meta"}
}

// hold acquires the lock, and lets all servers answer.
func (s *fakeQuorum) hold(t *testing.T) guardstore.Grant {
	t.Helper()
	r, err := s.Acquire(t.Context(), claim("a-1"))
	require.NoError(t, err)
	require.Equal(t, guardstore.ClaimHeld, r.Status)
	synctest.Wait()
	return guardstore.Grant{Key: "k", Owner: r.Owner, Fence: r.Fence, TTL: leaseTTL, Depth: 1, Metadata: "meta"}
}

func releaseOf(g guardstore.Grant) guardstore.Release {
	return guardstore.Release{Key: g.Key, Owner: g.Owner, Fence: g.Fence, TTL: g.TTL}
}

// takes says how long something takes.
func takes(do func()) time.Duration {
	begun := time.Now()
	do()
	return time.Since(begun)
}

// note notes a call, and says what is to be answered instead.
func (f *fake) note(ctx context.Context, a asked) error {
	f.mu.Lock()
	a.at, a.seq = time.Now(), f.fakeQuorum.seq.Add(1)
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

func (f *fake) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	if err := f.note(ctx, asked{what: "acquire " + c.Owner, claim: c}); err != nil {
		return guardstore.ClaimReply{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.acquire != nil:
		return f.acquire(c), nil
	case f.over[c.Owner]:
		return guardstore.ClaimReply{Status: guardstore.ClaimFinished}, nil
	case f.holder == "":
		f.holder, f.fence = c.Owner, max(f.last, c.FenceAbove)+1
		f.last = f.fence
	case f.holder != c.Owner:
		return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Holder: "other"}, nil
	}
	return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: f.fence}, nil
}

func (f *fake) Peek(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	if err := f.note(ctx, asked{what: "peek " + c.Owner, claim: c}); err != nil {
		return guardstore.ClaimReply{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.peek != nil:
		return f.peek(c), nil
	case f.holder != "":
		return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Holder: "other"}, nil
	}
	return guardstore.ClaimReply{Status: guardstore.ClaimBusy}, nil
}

func (f *fake) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	replies := make([]guardstore.RenewReply, len(batch))
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

func (f *fake) Release(ctx context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	if err := f.note(ctx, asked{what: "release " + r.Owner, release: r}); err != nil {
		return guardstore.ReleaseReply{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.release != nil:
		return f.release(r), nil
	case f.holder == r.Owner:
		f.holder, f.over[r.Owner] = "", true
		return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
	case f.over[r.Owner]:
		return guardstore.ReleaseReply{Status: guardstore.ReleaseAlready}, nil
	case r.Tombstone:
		f.over[r.Owner] = true
	}
	return guardstore.ReleaseReply{Status: guardstore.ReleaseLost}, nil
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
	f.over[c.Owner] = f.over[c.Owner] || tombstone
	return nil
}

func (f *fake) RaiseFence(ctx context.Context, c guardstore.Claim, fence uint64) (bool, error) {
	if err := f.note(ctx, asked{what: fmt.Sprint("raise ", c.Owner, " ", fence)}); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.raised != nil {
		return f.raised(), nil
	}
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
