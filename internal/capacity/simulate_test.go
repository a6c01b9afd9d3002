package capacity_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
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

// roundTrip is that of the simulated network.
const roundTrip = 500 * time.Microsecond

// shard is a server of one core: commands are served one after another, as they came. Those whose
// callers have left are served, too.
type shard struct {
	mu    sync.Mutex
	free  time.Time     // when it has served all that came
	busy  time.Duration // so far
	epoch int           // of the server: a failover begins another one
	down  bool
}

// serve does some work when its turn has come, and closes done then; never, if the server goes away.
func (s *shard) serve(cost time.Duration, work func()) (done chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done = make(chan struct{})
	if s.down {
		return done
	}
	begin := time.Now().Add(roundTrip)
	if s.free.After(begin) {
		begin = s.free
	}
	s.free = begin.Add(cost)
	s.busy += cost
	epoch := s.epoch
	time.AfterFunc(time.Until(s.free), func() {
		s.mu.Lock()
		alive := s.epoch == epoch
		s.mu.Unlock()
		if alive {
			work()
			close(done)
		}
	})
	return done
}

// fail takes the server away: nothing is answered any more.
func (s *shard) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy -= max(0, time.Until(s.free))
	s.down, s.epoch = true, s.epoch+1
}

// replace puts a replica in its place, which has all that it had.
func (s *shard) replace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.free = false, time.Now()
}

// worked is how long the server has worked until now.
func (s *shard) worked() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy - max(0, time.Until(s.free))
}

func (s *shard) backlog() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.free))
}

func (s *shard) now() (epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// world is what all processes share: servers, and what is in them.
type world struct {
	*guardtest.Store // Listen

	parts  capacity.Parts
	shards []*shard
	seed   maphash.Seed
}

func newWorld(parts capacity.Parts, shards int) *world {
	w := &world{Store: guardtest.NewStore(), parts: parts, seed: maphash.MakeSeed()}
	for range shards {
		w.shards = append(w.shards, &shard{epoch: 1})
	}
	return w
}

func (w *world) shardOf(key string) int {
	return int(maphash.String(w.seed, key) % uint64(len(w.shards)))
}

// process is the store of one Guard. Its connections to a server are made at first, and after a failover;
// one whose reply did not come is made anew.
type process struct {
	*world

	mu    sync.Mutex
	epoch []int // of each shard, as its connections lead there
	stale []bool
}

func (w *world) newProcess() *process {
	return &process{world: w, epoch: make([]int, len(w.shards)), stale: make([]bool, len(w.shards))}
}

// connect is what connections cost that are made for a command.
func (p *process) connect(n int) (cost time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.shards[n].now(); p.epoch[n] != now {
		p.epoch[n], p.stale[n] = now, false
		conns := p.parts.Connections
		if len(p.shards) > 1 {
			conns-- // that for messages goes to one shard
		}
		return time.Duration(conns) * p.parts.Connect
	}
	if p.stale[n] {
		p.stale[n] = false
		return p.parts.Connect
	}
	return 0
}

func (p *process) call(ctx context.Context, n int, cost time.Duration, work func()) error {
	select {
	case <-p.shards[n].serve(cost+p.connect(n), work):
		return nil
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stale[n] = true
		return ctx.Err()
	}
}

// Acquire implements guardstore.Store.
func (p *process) Acquire(ctx context.Context, c guardstore.Claim) (reply guardstore.ClaimReply, err error) {
	var got guardstore.ClaimReply
	if err := p.call(ctx, p.shardOf(c.Key), p.parts.Cycle/2, func() { got, _ = p.Store.Acquire(ctx, c) }); err != nil {
		return reply, err
	}
	return got, nil
}

// Release implements guardstore.Store.
func (p *process) Release(ctx context.Context, r guardstore.Release) (reply guardstore.ReleaseReply, err error) {
	var got guardstore.ReleaseReply
	if err := p.call(ctx, p.shardOf(r.Key), p.parts.Cycle/2, func() { got, _ = p.Store.Release(ctx, r) }); err != nil {
		return reply, err
	}
	return got, nil
}

// Renew implements guardstore.Store: with a pipeline for each server, as on a cluster.
func (p *process) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	replies := make([]guardstore.RenewReply, len(batch))
	at := make(map[int][]int)
	for i, grant := range batch {
		n := p.shardOf(grant.Key)
		at[n] = append(at[n], i)
	}
	var pipelines sync.WaitGroup
	for n, which := range at {
		pipelines.Go(func() { p.pipeline(ctx, n, batch, which, replies) })
	}
	pipelines.Wait()
	return replies
}

func (p *process) pipeline(ctx context.Context, n int, batch []guardstore.Grant, which []int, replies []guardstore.RenewReply) {
	part := make([]guardstore.Grant, len(which))
	for i, at := range which {
		part[i] = batch[at]
	}
	var got []guardstore.RenewReply
	cost := p.parts.Write() + time.Duration(len(part))*p.parts.Renewal
	err := p.call(ctx, n, cost, func() { got = p.Store.Renew(ctx, part) })
	for i, at := range which {
		if err != nil {
			replies[at].Err = err
		} else {
			replies[at] = got[i]
		}
	}
}

// losses counts locks that were lost, and notes when the first one was.
type losses struct {
	guard.NopObserver

	n, first atomic.Int64
}

func (l *losses) Event(_ context.Context, _ guard.Lock, e guard.Event) {
	if e.Kind == guard.Loss && l.n.Add(1) == 1 {
		l.first.Store(time.Now().UnixNano())
	}
}

// trial is one simulation: real Guards in virtual time.
type trial struct {
	capacity.Load
	outage time.Duration // of one shard; 0 = none
	slower int           // all service times are multiplied by it
}

// outcome is what came of a trial.
type outcome struct {
	core    float64       // of a shard, the mean
	formula float64       // what the formula says
	after   time.Duration // backlog after a failover, as the formula says
	failed  int64         // calls without an answer
	lost    int           // locks
	began   time.Time     // the outage, or all
	first   time.Duration // from then to the first lost lock
	calm    time.Duration // from the end of the outage until the server has no backlog
	longest time.Duration // backlog
}

func (o outcome) String() string {
	text := fmt.Sprintf("core %.1f %%, formula %.1f %%", 100*o.core, 100*o.formula)
	if o.longest > 0 {
		text += fmt.Sprintf("; work at once %v by the formula, backlog %v at most, for %v", o.after.Round(time.Millisecond), o.longest.Round(time.Millisecond), o.calm.Round(time.Millisecond))
	}
	if o.failed > 0 {
		text += fmt.Sprintf("; %d calls failed", o.failed)
	}
	if o.lost > 0 {
		return text + fmt.Sprintf("; %d locks lost, the first after %v", o.lost, o.first.Round(time.Millisecond))
	}
	return text + "; no lock lost"
}

func (tr trial) run(t *testing.T) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		parts := capacity.Measured.Slower(tr.slower)
		u := parts.Use(tr.Load)
		o.formula, o.after = u.Core, u.Backlog
		o.began = time.Now()
		w, lost := newWorld(parts, tr.Shards), &losses{}
		ctx, cancel := context.WithCancel(t.Context())
		guards := make([]*guard.Guard, tr.Processes)
		var working sync.WaitGroup
		var failed atomic.Int64
		for i := range guards {
			g, err := guard.NewWithStore(w.newProcess(), guard.TTL(tr.TTL), guard.Observe(lost))
			require.NoError(t, err)
			guards[i] = g
			working.Go(func() { tr.hold(ctx, g, i, &failed) })
			if tr.Cycles > 0 {
				working.Go(func() { tr.cycle(ctx, g, i, &failed) })
			}
		}
		round := tr.TTL / 3
		time.Sleep((takeRounds/time.Duration(tr.Shards) + 3) * round)
		o.core = w.use(2 * round)
		if tr.outage > 0 {
			tr.failOver(w.shards[0], &o)
		}
		cancel()
		working.Wait()
		o.failed = failed.Load()
		if o.lost = int(lost.n.Load()); o.lost > 0 {
			o.first = time.Unix(0, lost.first.Load()).Sub(o.began)
		}
		for _, g := range guards {
			assert.NoError(t, g.Close())
		}
	})
	return o
}

// takeRounds is in how many rounds of renewals a shard has its locks taken. To take them all at once would be
// a load of its own.
const takeRounds = 8

// hold takes the locks of a process, and keeps them.
func (tr trial) hold(ctx context.Context, g *guard.Guard, process int, failed *atomic.Int64) {
	begun := time.Now()
	var waits []time.Duration
	for range tr.Held / tr.Processes {
		waits = append(waits, rand.N((takeRounds/time.Duration(tr.Shards)+1)*tr.TTL/3))
	}
	slices.Sort(waits)
	for i, wait := range waits {
		time.Sleep(time.Until(begun.Add(wait)))
		if _, err := g.Acquire(ctx, guard.Keyf("held:%d:%d", process, i)); err != nil {
			failed.Add(1)
		}
	}
}

// cycle takes and releases free locks.
func (tr trial) cycle(ctx context.Context, g *guard.Guard, process int, failed *atomic.Int64) {
	mean := time.Duration(float64(time.Second) * float64(tr.Processes) / tr.Cycles)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.ExpFloat64() * float64(mean))):
		}
		if err := g.WithLock(ctx, guard.Keyf("free:%d", process), nothing); err != nil && ctx.Err() == nil {
			failed.Add(1)
		}
	}
}

// use is the share of their cores that servers use for a while, the mean.
func (w *world) use(while time.Duration) float64 {
	var worked time.Duration
	for _, s := range w.shards {
		worked -= s.worked()
	}
	time.Sleep(while)
	for _, s := range w.shards {
		worked += s.worked()
	}
	return worked.Seconds() / while.Seconds() / float64(len(w.shards))
}

func (tr trial) failOver(s *shard, o *outcome) {
	o.began = time.Now()
	s.fail()
	time.Sleep(tr.outage)
	s.replace()
	replaced := time.Now()
	for time.Since(replaced) < tr.TTL {
		time.Sleep(10 * time.Millisecond)
		backlog := s.backlog()
		o.longest = max(o.longest, backlog)
		if backlog > 50*time.Millisecond {
			o.calm = time.Since(replaced)
		}
	}
}

// TestSimulate_Simulation runs the real client code in virtual time, against servers with the measured service
// times: the use of a core is what the formula says, and no lock is lost, as long as no core is used up; a
// failover of a shard loses none if its replica has done within a second what then comes at once. The processes
// are some of 10,000, on servers that are as many times slower: all shares are the same. -large has
// all of them, once.
func TestSimulate_Simulation(t *testing.T) {
	const processes, locks, slower = 10_000, 100, 200
	for _, test := range []struct {
		name   string
		shards int
		ttl    time.Duration
		outage time.Duration
		slower int
	}{
		{"1 shard", 1, 30 * time.Second, 0, slower},
		{"1 shard, a ttl of 90 s", 1, 90 * time.Second, 0, slower},
		{"10 shards, an outage of 5 s", 10, 30 * time.Second, 5 * time.Second, slower},
		{"10 shards, an outage of 12 s", 10, 30 * time.Second, 12 * time.Second, slower},
		{"100 shards, an outage of 12 s", 100, 30 * time.Second, 12 * time.Second, slower},
		{"10 shards, an outage of 12 s, all processes", 10, 30 * time.Second, 12 * time.Second, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.slower == 1 && !*large {
				t.Skip("takes minutes, and gigabytes: -large")
			}
			tr := trial{Load: capacity.Load{
				Shards: test.shards, Processes: processes / test.slower, Held: processes * locks / test.slower,
				TTL: test.ttl, Cycles: 1000 / float64(test.slower),
			}, outage: test.outage, slower: test.slower}
			began := time.Now()
			o := tr.run(t)
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			t.Logf("%s (took %v, %d MB)", o, time.Since(began).Round(time.Second), mem.Sys>>20)
			if o.formula > 1 {
				assert.Positive(t, o.lost, "more than there is")
				return
			}
			assert.InEpsilon(t, o.formula, o.core, 0.05)
			if test.outage == 0 || o.after <= capacity.BacklogLimit {
				assert.Zero(t, o.lost)
			}
		})
	}
}
