package capacity_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/capacity"
)

const roundTrip = 500 * time.Microsecond // of the simulated network

// shard is a server of one core: commands are served one after another, as they came, also those whose callers
// have left.
type shard struct {
	free time.Time     // when it has served all that came
	busy time.Duration // so far
	gone chan struct{} // closed when it goes away: a replica then has all that it had
}

func (s *shard) backlog() time.Duration { return max(0, time.Until(s.free)) }

// world is what all processes share: servers, and what is in them.
type world struct {
	*guardtest.Store

	parts capacity.Parts
	seed  maphash.Seed
	conns int // that a process makes to a shard

	mu        sync.Mutex // protects what follows
	shards    []*shard
	processes []*process
}

// process is the store of one Guard.
type process struct {
	*world

	owed []int // connections to each shard that its next command has to make
}

func (w *world) newProcess() *process {
	p := &process{world: w, owed: make([]int, len(w.shards))}
	for n := range p.owed {
		p.owed[n] = w.conns
	}
	w.processes = append(w.processes, p)
	return p
}

func (w *world) shardOf(key string) int {
	return int(maphash.String(w.seed, key) % uint64(len(w.shards)))
}

// send has a shard do some work when its turn has come, and closes done then; never, if the shard goes away.
func (p *process) send(n int, cost time.Duration, work func()) (done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, done := p.shards[n], make(chan struct{})
	cost += time.Duration(p.owed[n]) * p.parts.Connect
	if p.owed[n] = 0; closed(s.gone) {
		return done
	}
	begin := time.Now().Add(roundTrip)
	if s.free.After(begin) {
		begin = s.free
	}
	s.free = begin.Add(cost)
	s.busy += cost
	gone := s.gone
	time.AfterFunc(time.Until(s.free), func() {
		if !closed(gone) {
			work()
			close(done)
		}
	})
	return done
}

// call sends a command. A connection whose reply does not come is made anew.
func (p *process) call(ctx context.Context, n int, cost time.Duration, work func()) error {
	select {
	case <-p.send(n, cost, work):
		return nil
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.owed[n] = max(p.owed[n], 1)
		return ctx.Err()
	}
}

// one is a command for one key. What it answers after its caller left is dropped.
func one[A, R any](ctx context.Context, p *process, key string, arg A, do func(context.Context, A) (R, error)) (none R, err error) {
	var reply R
	if err := p.call(ctx, p.shardOf(key), p.parts.Cycle/2, func() { reply, _ = do(ctx, arg) }); err != nil {
		return none, err
	}
	return reply, nil
}

// Acquire implements guardstore.Store.
func (p *process) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	return one(ctx, p, c.Key, c, p.Store.Acquire)
}

// Release implements guardstore.Store.
func (p *process) Release(ctx context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	return one(ctx, p, r.Key, r, p.Store.Release)
}

// Renew implements guardstore.Store: with a pipeline for each server, as on a cluster.
func (p *process) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	replies, parts, at := make([]guardstore.RenewReply, len(batch)), map[int][]guardstore.Grant{}, map[int][]int{}
	for i, grant := range batch {
		n := p.shardOf(grant.Key)
		parts[n], at[n] = append(parts[n], grant), append(at[n], i)
	}
	var pipelines sync.WaitGroup
	for n, part := range parts {
		pipelines.Go(func() {
			var got []guardstore.RenewReply
			err := p.call(ctx, n, p.parts.Write()+time.Duration(len(part))*p.parts.Renewal, func() { got = p.Store.Renew(ctx, part) })
			for i, at := range at[n] {
				if err != nil {
					replies[at].Err = err
				} else {
					replies[at] = got[i]
				}
			}
		})
	}
	pipelines.Wait()
	return replies
}

// losses counts locks that were lost, and notes when the first one was.
type losses struct {
	guard.NopObserver

	n     atomic.Int64
	first time.Time
}

func (l *losses) Event(_ context.Context, _ guard.Lock, e guard.Event) {
	if e.Kind == guard.EventLoss && l.n.Add(1) == 1 {
		l.first = time.Now()
	}
}

// trial is one simulation: real Guards in virtual time. All service times are multiplied by slower.
type trial struct {
	capacity.Load

	outage time.Duration // of one shard; 0 = none
	slower int
}

// takeRounds is in how many rounds of renewals a shard has its locks taken. To take them all at once would be
// a load of its own.
const takeRounds = 8

// run says what share of a core a shard used, the mean, and how many locks were lost.
func (tr trial) run(t *testing.T) (core float64, lost int64) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{Store: guardtest.NewStore(), parts: capacity.Measured.Slower(tr.slower), seed: maphash.MakeSeed()}
		if w.conns = w.parts.Connections; tr.Shards > 1 {
			w.conns-- // that for messages goes to one shard
		}
		for range tr.Shards {
			w.shards = append(w.shards, &shard{gone: make(chan struct{})})
		}
		began, losses := time.Now(), &losses{}
		ctx, cancel := context.WithCancel(t.Context())
		guards := make([]*guard.Guard, tr.Processes)
		var working sync.WaitGroup
		for i := range guards {
			g, err := guard.NewWithStore(w.newProcess(), guard.TTL(tr.TTL), guard.Observe(losses))
			require.NoError(t, err)
			guards[i] = g
			working.Go(func() { tr.work(ctx, g, i) })
		}
		round := tr.TTL / 3
		time.Sleep((takeRounds/time.Duration(tr.Shards) + 3) * round)
		core = w.use(2*round) / float64(tr.Shards)
		if tr.outage > 0 {
			began = time.Now()
			t.Logf("backlog %v", w.failOver(tr))
		}
		cancel()
		working.Wait()
		if lost = losses.n.Load(); lost > 0 {
			t.Logf("%d locks lost, the first after %v", lost, losses.first.Sub(began))
		}
		for _, g := range guards {
			assert.NoError(t, g.Close())
		}
	})
	return core, lost
}

// work takes the locks of a process, keeps them, and takes and releases free locks. On a server that is overloaded,
// calls fail.
func (tr trial) work(ctx context.Context, g *guard.Guard, process int) {
	for i := range tr.Held / tr.Processes {
		time.AfterFunc(rand.N((takeRounds/time.Duration(tr.Shards)+1)*tr.TTL/3), func() {
			_, _ = g.Acquire(ctx, guard.Keyf("held:%d:%d", process, i))
		})
	}
	mean := float64(time.Second) * float64(tr.Processes) / tr.Cycles
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(rand.ExpFloat64() * mean)):
			_ = g.WithLock(ctx, guard.Keyf("free:%d", process), nothing)
		}
	}
}

// use is how many cores the shards use for a while, the mean.
func (w *world) use(while time.Duration) float64 {
	worked := func() (sum time.Duration) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, s := range w.shards {
			sum += s.busy - s.backlog()
		}
		return sum
	}
	before := worked()
	time.Sleep(while)
	return (worked() - before).Seconds() / while.Seconds()
}

// failOver takes a shard away for the outage, and says what its replica then had to do at most.
func (w *world) failOver(tr trial) (longest time.Duration) {
	s := w.shards[0]
	w.mu.Lock()
	close(s.gone)
	for _, p := range w.processes {
		p.owed[0] = w.conns
	}
	w.mu.Unlock()
	time.Sleep(tr.outage)
	w.mu.Lock()
	s.free, s.gone = time.Now(), make(chan struct{})
	w.mu.Unlock()
	for replaced := time.Now(); time.Since(replaced) < tr.TTL; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		longest = max(longest, s.backlog())
		w.mu.Unlock()
	}
	return longest
}

// TestSimulate_Simulation runs the real client code in virtual time, against servers with the measured service
// times: the use of a core is what the formula says, and no lock is lost, as long as no core is used up; a
// failover of a shard loses none if its replica has done within a second what then comes at once. The processes
// are some of 10,000, on servers that are as many times slower: all shares are the same. -large has
// all of them, once.
func TestSimulate_Simulation(t *testing.T) {
	const processes, locks, slower = 10_000, 100, 200
	for _, test := range []struct {
		shards      int
		ttl, outage time.Duration
		slower      int
	}{
		{1, 30 * time.Second, 0, slower},
		{1, 90 * time.Second, 0, slower},
		{10, 30 * time.Second, 5 * time.Second, slower},
		{10, 30 * time.Second, 12 * time.Second, slower},
		{100, 30 * time.Second, 12 * time.Second, slower},
		{10, 30 * time.Second, 12 * time.Second, 1},
	} {
		t.Run(fmt.Sprintf("%d shards, ttl %v, outage %v, slower by %d", test.shards, test.ttl, test.outage, test.slower), func(t *testing.T) {
			if test.slower == 1 && !*large {
				t.Skip("takes minutes, and gigabytes: -large")
			}
			tr := trial{capacity.Load{
				Shards: test.shards, Processes: processes / test.slower, Held: processes * locks / test.slower,
				TTL: test.ttl, Cycles: 1000 / float64(test.slower),
			}, test.outage, test.slower}
			formula := capacity.Measured.Slower(tr.slower).Use(tr.Load)
			core, lost := tr.run(t)
			t.Logf("core %.1f %%, by the formula %.1f %% and %v to do at once", 100*core, 100*formula.Core, formula.Backlog)
			if formula.Core > 1 {
				assert.Positive(t, lost, "more than there is")
				return
			}
			assert.InEpsilon(t, formula.Core, core, 0.05)
			if test.outage == 0 || formula.Backlog <= capacity.BacklogLimit {
				assert.Zero(t, lost)
			}
		})
	}
}
