package cohort_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// The driver below draws from a seed what callers of three Guards do, what becomes of their
// commands and messages, when a lock is taken away and when a Guard is closed. Time is
// virtual. It looks for what must hold whatever happens: no more inside than the strictest of
// them tolerates; fences that rise; work whose context ends in time; no caller that is
// forgotten; nothing that is left.
//
//	go test -run TestDrivenCallers ./guard/internal/cohort -driven.seed 17

var (
	drivenSeed = flag.Uint64("driven.seed", 0, "seed of the driver of callers; 0 = the usual ones")
	drivenRuns = flag.Uint64("driven.runs", 24, "how many seeds it takes")
)

const (
	drivenTime = 25 * time.Second // for as long things go wrong
	drivenLate = 15 * time.Second // a command is on its way for no longer
	drivenTTL  = 6 * time.Second  // at most
)

// drive is one run of the driver.
type drive struct {
	store *guardtest.Store
	wire  sync.WaitGroup // commands that are late

	mu     sync.Mutex // protects what follows
	rnd    *rand.Rand
	calm   bool // nothing fails any more
	steps  int
	held   map[string]int    // by owner: when the store last said that it holds, under its first fence
	minted map[string]uint64 // by owner: that fence
	lost   map[string]int    // by key: when it was taken away last
	top    map[string]uint64 // the highest fence
	alone  map[string]uint64 // the highest fence of an exclusive holder
	inside map[string][]*insider
	wrong  []string
	works  int
	shared int // readers that had the claim of another caller
}

// insider is work under a lock.
type insider struct {
	ctx   context.Context
	owner string
	key   string
	limit guardstore.Limit
}

func (d *drive) draw(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.IntN(n)
}

func (d *drive) ms(n int) time.Duration { return time.Duration(d.draw(n)) * time.Millisecond }

func (d *drive) fail(format string, args ...any) {
	d.wrong = append(d.wrong, fmt.Sprintf(format, args...))
}

// doomed says of work whether its lock was taken away. It needs d.mu.
func (d *drive) doomed(i *insider) bool { return d.held[i.owner] < d.lost[i.key] }

// enter and leave are called by work.
func (d *drive) enter(ctx context.Context, key string) *insider {
	l, ok := guard.FromContext(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !ok {
		d.fail("work on %s without a lease", key)
		return &insider{ctx: ctx, key: key}
	}
	in := &insider{ctx, testenv.Owner(l), key, guardhook.Limit(l)}
	d.works++
	if slices.ContainsFunc(d.inside[key], func(other *insider) bool { return other.owner == in.owner }) {
		d.shared++
	}
	d.inside[key] = append(d.inside[key], in)
	if ctx.Err() == nil && !d.doomed(in) {
		d.count(key)
	}
	above := d.alone[key]
	if in.limit == guardstore.Exclusive {
		above = d.top[key]
	}
	if l.Fence() <= above && !d.doomed(in) {
		d.fail("%s (limit %d) has fence %d, after %d", in.owner, in.limit, l.Fence(), above)
	}
	d.top[key] = max(d.top[key], l.Fence())
	if in.limit == guardstore.Exclusive {
		d.alone[key] = max(d.alone[key], l.Fence())
	}
	return in
}

// count looks at how many are inside. Readers that share a claim count as one. It needs d.mu.
func (d *drive) count(key string) {
	n, most, shares := 0, 1<<30, map[string]bool{}
	for _, in := range d.inside[key] {
		if in.ctx.Err() != nil || d.doomed(in) {
			continue
		}
		switch {
		case in.limit == guardstore.Exclusive:
			most = 1
		case in.limit != guardstore.Unlimited:
			most = min(most, int(in.limit))
		case shares[in.owner]:
			continue
		}
		shares[in.owner] = true
		n++
	}
	if n > most {
		d.fail("%d are inside of %s, and one of them puts up with %d", n, key, most)
	}
}

func (d *drive) leave(in *insider) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside[in.key] = slices.DeleteFunc(d.inside[in.key], func(i *insider) bool { return i == in })
}

// drivenStore is the store as one Guard reaches it.
type drivenStore struct {
	*drive
}

// carry has a command executed, or not, and says whether it was answered in time.
func (s drivenStore) carry(ctx context.Context, run func()) error {
	n := s.draw(100)
	s.mu.Lock()
	calm := s.calm
	s.mu.Unlock()
	later := func() {
		wait := s.ms(int(drivenLate / time.Millisecond))
		s.wire.Go(func() {
			time.Sleep(wait)
			run()
		})
	}
	switch {
	case calm || n < 60:
		run()
		return nil
	case n < 70: // slow to get there
		time.Sleep(s.ms(300))
		run()
	case n < 82: // slow to come back
		run()
		time.Sleep(s.ms(900))
	case n < 88: // twice, and answered the second time
		run()
		time.Sleep(s.ms(200))
		run()
		return nil
	case n < 92: // the reply is lost
		run()
		noAnswer(ctx)
	case n < 96:
		later()
		noAnswer(ctx)
	default:
		noAnswer(ctx)
	}
	if ctx.Err() != nil || n >= 88 {
		return errUnanswered
	}
	return nil
}

// latest is the last answer.
func latest[T any](answers <-chan T) T {
	answer := <-answers
	for len(answers) > 0 {
		answer = <-answers
	}
	return answer
}

func noAnswer(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(3 * time.Second):
	}
}

// holds notes that the store answered an owner that it holds. If the lock was taken away, a late duplicate of the claim
// may get it again, under another fence. The process may have the first reply: its work is doomed all the same.
func (s drivenStore) holds(owner string, r guardstore.ClaimReply) {
	if r.Status == guardstore.ClaimHeld {
		s.mu.Lock()
		defer s.mu.Unlock()
		if first, known := s.minted[owner]; known && first != r.Fence {
			return
		}
		s.steps++
		s.held[owner], s.minted[owner] = s.steps, r.Fence
	}
}

// Acquire implements guardstore.Store.
func (s drivenStore) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	answer := make(chan guardstore.ClaimReply, 2) // a command that arrives twice
	err := s.carry(ctx, func() {
		r, _ := s.store.Acquire(context.Background(), c)
		s.holds(c.Owner, r)
		answer <- r
	})
	if err != nil {
		return guardstore.ClaimReply{}, err
	}
	return latest(answer), nil
}

// Renew implements guardstore.Store.
func (s drivenStore) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	batch = slices.Clone(batch)
	answer := make(chan []guardstore.RenewReply, 2)
	if err := s.carry(ctx, func() { answer <- s.store.Renew(context.Background(), batch) }); err != nil {
		replies := make([]guardstore.RenewReply, len(batch))
		for i := range replies {
			replies[i].Err = err
		}
		return replies
	}
	return latest(answer)
}

// Release implements guardstore.Store.
func (s drivenStore) Release(ctx context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	answer := make(chan guardstore.ReleaseReply, 2)
	err := s.carry(ctx, func() {
		reply, _ := s.store.Release(context.Background(), r)
		answer <- reply
	})
	if err != nil {
		return guardstore.ReleaseReply{}, err
	}
	return latest(answer), nil
}

// Listen implements guardstore.Store.
func (s drivenStore) Listen(ctx context.Context, instance string, l guardstore.Listener) {
	s.store.Listen(ctx, instance, drivenListener{l, s.drive})
}

// drivenListener misses some messages.
type drivenListener struct {
	guardstore.Listener
	*drive
}

// Notify implements guardstore.Listener.
func (l drivenListener) Notify(n guardstore.Notification) {
	if n.Owner == "" || l.draw(10) > 0 {
		l.Listener.Notify(n)
	}
}

// caller asks for a lock once, in some way.
func (d *drive) caller(t *testing.T, g *guard.Guard, key string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ttl := 2*time.Second + d.ms(int(drivenTTL/time.Millisecond)-2000)
	if d.draw(4) > 0 {
		ttl = drivenTTL / 2 // as others: claims are shared, and passed on
	}
	opts := []guard.LockOption{guard.TTL(ttl)}
	switch n := d.draw(6); {
	case n < 2:
		opts = append(opts, guard.Shared())
	case n < 4:
		opts = append(opts, guard.Limit(2+d.draw(2)))
	}
	switch n := d.draw(20); {
	case n < 3:
		opts = append(opts, guard.NoWait())
	case n < 6:
		opts = append(opts, guard.Wait(d.ms(4000)))
	case n < 9:
		timer := time.AfterFunc(d.ms(4000), cancel)
		defer timer.Stop()
	case n < 11:
		opts = append(opts, guard.MaxHold(time.Second+d.ms(2000)))
	}
	if d.draw(4) == 0 {
		opts = append(opts, guard.AsyncRelease())
	}
	nests, hangs, long := d.draw(6) == 0, d.draw(15) == 0, d.draw(8) == 0
	err := g.WithLock(ctx, guard.Key(key), func(ctx context.Context) error {
		in := d.enter(ctx, key)
		defer d.leave(in)
		work := d.ms(40)
		if long {
			work = d.ms(5000)
		}
		if nests {
			_ = g.WithLock(ctx, guard.Key(key), func(context.Context) error {
				time.Sleep(d.ms(20))
				return nil
			}, guard.Shared())
		}
		select {
		case <-time.After(work):
		case <-ctx.Done():
			if hangs {
				time.Sleep(d.ms(3000))
			}
		}
		return nil
	}, opts...)
	if known := err == nil || errors.Is(err, guard.ErrBusy) || errors.Is(err, guard.ErrLost) || errors.Is(err, guard.ErrStore) ||
		errors.Is(err, guard.ErrClosed) || errors.Is(err, context.Canceled); !known {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.fail("a caller was told %v", err)
	}
}

// look looks at what has to hold at any time.
func (d *drive) look(keys []string) {
	synctest.Wait() // no caller gets in or out meanwhile
	for _, key := range keys {
		depth := d.store.Depth(key)
		d.mu.Lock()
		for _, in := range d.inside[key] {
			if in.ctx.Err() == nil && !d.doomed(in) && depth == 0 {
				d.fail("%s works on %s, which is free", in.owner, key)
			}
		}
		d.mu.Unlock()
	}
}

// take takes a lock away. The context of the work ends before the ttl has passed.
func (d *drive) take(key string) {
	synctest.Wait() // no owner learns meanwhile that it holds
	d.mu.Lock()
	d.steps++
	d.lost[key] = d.steps
	victims := slices.Clone(d.inside[key])
	d.mu.Unlock()
	d.store.Drop(key)
	for _, in := range victims {
		timer := time.AfterFunc(drivenTTL, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if in.ctx.Err() == nil && d.doomed(in) && slices.Contains(d.inside[key], in) {
				d.fail("%s still works on %s, long after it was taken away", in.owner, key)
			}
		})
		context.AfterFunc(in.ctx, func() { timer.Stop() })
	}
}

func driven(t *testing.T, seed uint64) {
	t.Helper()
	d := &drive{
		store: guardtest.NewStore(), rnd: rand.New(rand.NewPCG(seed, 19)),
		held: map[string]int{}, minted: map[string]uint64{}, lost: map[string]int{}, top: map[string]uint64{}, alone: map[string]uint64{}, inside: map[string][]*insider{},
	}
	keys := []string{"a", "b"}[:1+d.draw(2)]
	guards := make([]*guard.Guard, 3)
	for i := range guards {
		opts := []guard.Option{guard.StoreTimeout(time.Second + d.ms(1000))}
		if d.draw(3) == 0 {
			opts = append(opts, guard.HandoverWindow(d.ms(200)))
		}
		g, err := guard.NewWithStore(drivenStore{d}, opts...)
		require.NoError(t, err)
		guards[i] = g
	}
	var callers sync.WaitGroup
	start := time.Now()
	closing := -1
	if d.draw(3) == 0 {
		closing = d.draw(80)
	}
	for n := 0; time.Since(start) < drivenTime; n++ {
		time.Sleep(d.ms(300))
		g, key := guards[d.draw(len(guards))], keys[d.draw(len(keys))]
		for range 1 + d.draw(5) {
			callers.Go(func() { d.caller(t, g, key) })
		}
		if d.draw(30) == 0 {
			d.take(key)
		}
		if n == closing {
			_ = guards[0].Close()
		}
		d.look(keys)
	}
	d.mu.Lock()
	d.calm = true
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		callers.Wait()
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		d.mu.Lock()
		d.fail("a caller is forgotten")
		d.mu.Unlock()
	}
	time.Sleep(drivenTTL + time.Second) // what was released without an answer has expired
	for range int(drivenLate / (100 * time.Millisecond)) {
		time.Sleep(100 * time.Millisecond)
		for _, key := range keys {
			assert.Zero(t, d.store.Depth(key), "%s is held for no caller", key)
			assert.Empty(t, d.store.Queue(key), "the queue of %s has an owner that is gone", key)
		}
		if t.Failed() {
			break
		}
	}
	for _, g := range guards {
		assert.NoError(t, g.Close())
	}
	d.wire.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	assert.Empty(t, d.wrong, "seed %d", seed)
	assert.Greater(t, d.works, 20)
	assert.Positive(t, d.shared)
}

func TestDrivenCallers(t *testing.T) {
	t.Parallel()
	seeds := []uint64{*drivenSeed}
	if *drivenSeed == 0 {
		seeds = nil
		for seed := range *drivenRuns {
			seeds = append(seeds, seed+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { driven(t, seed) })
		})
	}
}
