package capacity_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/capacity"
	"github.com/redlatch/redlatch/internal/redistest"
)

// meter measures what one server spends on locks.
type meter struct {
	t      *testing.T
	server *redistest.Server
	admin  *redis.Client
	each   time.Duration // for how long a step is repeated
	many   int           // keys, where memory is measured
	idle   float64       // the share of the core that a server without clients spends
}

// TestMeasure_MeasuredParts measures the service times and sizes that package capacity calculates with, and
// prints them beside those. They are the time of Redis's main thread, so that a busy machine does
// not matter much. Without -large it only shows that each can be measured.
func TestMeasure_MeasuredParts(t *testing.T) {
	m := &meter{t: t, server: redistest.Start(t), each: 100 * time.Millisecond, many: 200}
	rounds := 1
	if *large {
		rounds, m.each, m.many = 3, time.Second, 2000
	}
	m.admin = m.server.Client(t)
	began, before := time.Now(), m.core(m.admin)
	time.Sleep(m.each)
	m.idle = float64(m.core(m.admin)-before) / float64(time.Since(began))

	steps := []struct {
		name    string
		measure func() time.Duration
		put     func(*capacity.Parts) *time.Duration
	}{
		{"free cycle, alone", m.freeCycles(32, 1), func(p *capacity.Parts) *time.Duration { return &p.Cycle }},
		{"free cycle, 128 callers", m.freeCycles(1, 128), func(p *capacity.Parts) *time.Duration { return &p.SharedCycle }},
		{"hand-over between processes", m.handOvers, func(p *capacity.Parts) *time.Duration { return &p.HandOver }},
		{"busy answer", m.busyAnswers, func(p *capacity.Parts) *time.Duration { return &p.Busy }},
		{"renewal, alone", m.renewals(min(m.many/4, 500), 1, 300*time.Millisecond), func(p *capacity.Parts) *time.Duration { return &p.RenewalAlone }},
		{"renewal, in pipelines of 500", m.renewals(1, max(5*m.many, 500), 3*time.Second), func(p *capacity.Parts) *time.Duration { return &p.Renewal }},
		{"enter and leave a queue", m.queues, func(p *capacity.Parts) *time.Duration { return &p.Queue }},
		{"wait in front, each second", m.waits, func(p *capacity.Parts) *time.Duration { return &p.Waiting }},
		{"new connection", m.connects, func(p *capacity.Parts) *time.Duration { return &p.Connect }},
	}
	found := make(map[string][]time.Duration)
	for range rounds {
		for _, s := range steps {
			require.NoError(t, m.admin.FlushAll(t.Context()).Err())
			found[s.name] = append(found[s.name], s.measure())
		}
	}
	var out strings.Builder
	known := capacity.Measured
	fmt.Fprintf(&out, "%-32s %12s %12s  (medians of %d rounds)\n", "", "this run", "known", rounds)
	for _, s := range steps {
		cost := median(found[s.name])
		assert.Positive(t, cost, s.name)
		fmt.Fprintf(&out, "%-32s %9.1f µs %9.1f µs  %v\n", s.name, micro(cost), micro(*s.put(&known)), found[s.name])
	}
	t.Log("\n" + out.String())
	out.Reset()
	publish, forward := m.messages(rounds)
	fmt.Fprintf(&out, "%-32s %9.1f µs %9.1f µs\n", "message, on its node", micro(publish), micro(known.Publish))
	fmt.Fprintf(&out, "%-32s %9.1f µs %9.1f µs\n", "message, on each other node", micro(forward), micro(known.Forward))
	m.memory(&out)
	m.connections(&out)
	t.Log("\n" + out.String())
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// core is how long the main thread of a server has worked.
func (m *meter) core(client *redis.Client) time.Duration {
	m.t.Helper()
	info, err := client.InfoMap(m.t.Context(), "cpu").Result()
	require.NoError(m.t, err)
	var sum float64
	for _, name := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		seconds, err := strconv.ParseFloat(info["CPU"][name], 64)
		require.NoError(m.t, err)
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second))
}

// spent is what the server spends on one of n things that f does.
func (m *meter) spent(f func() (n int64)) time.Duration {
	m.t.Helper()
	began, before := time.Now(), m.core(m.admin)
	n := f()
	spent := m.core(m.admin) - before - time.Duration(m.idle*float64(time.Since(began)))
	require.Positive(m.t, n)
	return spent / time.Duration(n)
}

// repeat has callers do something for as long as a step takes, once each has done it and has its
// connections, and says what one of them costs.
func (m *meter) repeat(callers int, do func(caller int) error) time.Duration {
	m.t.Helper()
	var done atomic.Int64
	var warm, running sync.WaitGroup
	warm.Add(callers)
	stop := make(chan struct{})
	for caller := range callers {
		running.Go(func() {
			ready := sync.OnceFunc(warm.Done)
			defer ready()
			for !closed(stop) {
				if err := do(caller); err != nil {
					m.t.Errorf("caller %d: %v", caller, err)
					return
				}
				ready()
				done.Add(1)
			}
		})
	}
	warm.Wait()
	cost := m.spent(func() int64 {
		before := done.Load()
		time.Sleep(m.each)
		return done.Load() - before
	})
	close(stop)
	running.Wait()
	return cost
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// guards are as many processes. The func closes them.
func (m *meter) guards(n int, opts ...guard.Option) (all []*guard.Guard, end func()) {
	m.t.Helper()
	var clients []*redis.Client
	for range n {
		client := redis.NewClient(&redis.Options{Addr: m.server.Addr()})
		g, err := guard.New(client, opts...)
		require.NoError(m.t, err)
		all, clients = append(all, g), append(clients, client)
	}
	return all, func() {
		for i, g := range all {
			assert.NoError(m.t, g.Close())
			assert.NoError(m.t, clients[i].Close())
		}
	}
}

func nothing(context.Context) error { return nil }

// freeCycles is WithLock on keys that nobody else wants.
func (m *meter) freeCycles(processes, callers int) func() time.Duration {
	return func() time.Duration {
		gs, end := m.guards(processes)
		defer end()
		return m.repeat(processes*callers, func(caller int) error {
			return gs[caller%processes].WithLock(m.t.Context(), guard.Keyf("free:%d", caller), nothing)
		})
	}
}

// handOvers is WithLock on keys that three other processes wait for.
func (m *meter) handOvers() time.Duration {
	const processes = 64
	gs, end := m.guards(processes)
	defer end()
	return m.repeat(processes, func(caller int) error {
		return gs[caller].WithLock(m.t.Context(), guard.Keyf("hot:%d", caller/4), nothing)
	})
}

// busyAnswers is WithLock without a wait on a key that is held.
func (m *meter) busyAnswers() time.Duration {
	gs, end := m.guards(33)
	defer end()
	lease, err := gs[32].Acquire(m.t.Context(), guard.Key("held"))
	require.NoError(m.t, err)
	defer func() { assert.NoError(m.t, lease.Release(m.t.Context())) }()
	return m.repeat(32, func(caller int) error {
		err := gs[caller].WithLock(m.t.Context(), guard.Key("held"), nothing, guard.NoWait())
		if !errors.Is(err, guard.ErrBusy) {
			return fmt.Errorf("not busy: %w", err)
		}
		return nil
	})
}

// renewals are those of held locks. All of a server's scripts are, meanwhile.
func (m *meter) renewals(processes, locks int, ttl time.Duration) func() time.Duration {
	return func() time.Duration {
		gs, end := m.guards(processes, guard.TTL(ttl))
		defer end()
		release := m.hold(gs, locks)
		defer release()
		time.Sleep(m.each / 10)
		return m.spent(func() int64 {
			before := m.scripts()
			time.Sleep(max(m.each, ttl/3+ttl/10))
			return m.scripts() - before
		})
	}
}

// scripts is how many scripts the server ran.
func (m *meter) scripts() int64 {
	info, err := m.admin.InfoMap(m.t.Context(), "commandstats").Result()
	require.NoError(m.t, err)
	text, _ := strings.CutPrefix(info["Commandstats"]["cmdstat_evalsha"], "calls=")
	calls, _, _ := strings.Cut(text, ",")
	n, _ := strconv.ParseInt(calls, 10, 64)
	return n
}

// hold has each process take so many locks.
func (m *meter) hold(gs []*guard.Guard, locks int) (release func()) {
	leases := make([]*guard.Lease, len(gs)*locks)
	each(len(leases), func(i int) {
		lease, err := gs[i%len(gs)].Acquire(m.t.Context(), guard.Keyf("held:%d", i))
		if assert.NoError(m.t, err) {
			leases[i] = lease
		}
	})
	return func() { // a short ttl may be over before, on a busy machine
		each(len(leases), func(i int) { _ = leases[i].Release(context.WithoutCancel(m.t.Context())) })
	}
}

// each does something n times, 256 at a time.
func each(n int, do func(i int)) {
	var workers sync.WaitGroup
	var next atomic.Int64
	for range min(n, 256) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	workers.Wait()
}

// queues is a wait that ends without the lock, before the claim asks again.
func (m *meter) queues() time.Duration {
	const keys = 64
	gs, end := m.guards(keys + 1)
	defer end()
	defer m.hold(gs[keys:], keys)()
	return m.repeat(keys, func(caller int) error {
		err := gs[caller].WithLock(m.t.Context(), guard.Keyf("held:%d", caller), nothing, guard.Wait(5*time.Millisecond))
		if !errors.Is(err, guard.ErrBusy) {
			return fmt.Errorf("not busy: %w", err)
		}
		return nil
	})
}

// waits is what a process costs that waits in front of a queue, each second.
func (m *meter) waits() time.Duration {
	processes := min(m.many, 300)
	gs, end := m.guards(processes + 1)
	defer end()
	defer m.hold(gs[processes:], processes)()
	ctx, cancel := context.WithCancel(m.t.Context())
	var waiting sync.WaitGroup
	for i := range processes {
		waiting.Go(func() {
			_, err := gs[i].Acquire(ctx, guard.Keyf("held:%d", i))
			assert.ErrorIs(m.t, err, context.Canceled)
		})
	}
	m.until(func() bool {
		n, err := m.admin.Do(m.t.Context(), "eval", "return #redis.call('KEYS', '*:seen')", 0).Int()
		return err == nil && n == processes
	})
	time.Sleep(m.each / 10)
	length := 2 * max(m.each, time.Second) // each asks once a second
	cost := m.spent(func() int64 {
		time.Sleep(length)
		return int64(float64(processes) * length.Seconds())
	})
	cancel()
	waiting.Wait()
	return cost
}

func (m *meter) until(condition func() bool) {
	m.t.Helper()
	require.Eventually(m.t, condition, time.Minute, 10*time.Millisecond)
}

// connects is a new connection, as go-redis makes it, and its end.
func (m *meter) connects() time.Duration {
	return m.repeat(32, func(int) error {
		client := redis.NewClient(&redis.Options{Addr: m.server.Addr()})
		defer func() { _ = client.Close() }()
		return client.Ping(m.t.Context()).Err()
	})
}

// messages is what a PUBLISH costs the node of a cluster that gets it, and each of the five others.
func (m *meter) messages(rounds int) (publish, forward time.Duration) {
	nodes := redistest.StartCluster(m.t).Nodes()
	clients := make([]*redis.Client, len(nodes))
	for i, node := range nodes {
		clients[i] = node.Client(m.t)
	}
	spent := func() (all []time.Duration) {
		for _, client := range clients {
			all = append(all, m.core(client))
		}
		return all
	}
	idle := m.spentBy(spent, func() int64 { time.Sleep(m.each); return 1 })
	var first, others []time.Duration
	for range rounds {
		stop, running, n := make(chan struct{}), sync.WaitGroup{}, atomic.Int64{}
		costs := m.spentBy(spent, func() int64 {
			for range 16 {
				running.Go(func() {
					for !closed(stop) {
						assert.NoError(m.t, clients[0].Publish(m.t.Context(), "guard:grant:nobody", "?").Err())
						n.Add(1)
					}
				})
			}
			time.Sleep(m.each)
			close(stop)
			running.Wait()
			return 1
		})
		each := func(i int) time.Duration { return (costs[i] - idle[i]) / time.Duration(n.Load()) }
		first = append(first, each(0))
		for i := range clients[1:] {
			others = append(others, each(i+1))
		}
	}
	return median(first), median(others)
}

func (m *meter) spentBy(spent func() []time.Duration, f func() int64) []time.Duration {
	before := spent()
	n := f()
	after := spent()
	for i := range after {
		after[i] = (after[i] - before[i]) / time.Duration(n)
	}
	return after
}

// memory prints what a key in each of its states takes, of what Redis says that it uses.
func (m *meter) memory(out *strings.Builder) {
	require.NoError(m.t, m.admin.FlushAll(m.t.Context()).Err())
	gs, end := m.guards(2)
	defer end()
	used := func() int64 {
		info, err := m.admin.InfoMap(m.t.Context(), "memory").Result()
		require.NoError(m.t, err)
		n, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
		require.NoError(m.t, err)
		return n
	}
	says := func(what string, bytes int64, known int) {
		fmt.Fprintf(out, "%-32s %9d B  %9d B\n", what, bytes/int64(m.many), known)
	}
	m.hold(gs[:1], 256)() // what there is once is there now
	m.hold(gs[1:], 256)()
	require.NoError(m.t, m.admin.FlushAll(m.t.Context()).Err())
	empty := used()
	release := m.hold(gs[:1], m.many)
	held := used()
	ctx, cancel := context.WithCancel(m.t.Context())
	var waiting sync.WaitGroup
	for i := range m.many {
		waiting.Go(func() {
			_, err := gs[1].Acquire(ctx, guard.Keyf("held:%d", i))
			assert.ErrorIs(m.t, err, context.Canceled)
		})
	}
	m.until(func() bool {
		n, err := m.admin.DBSize(m.t.Context()).Result()
		return err == nil && n >= int64(4*m.many)
	})
	queued := used()
	says("held lock, with its fence", held-empty, capacity.Measured.HeldBytes)
	says("queue of a key, with one claim", queued-held, capacity.Measured.QueueBytes)
	cancel()
	waiting.Wait()
	release()
	m.until(func() bool {
		n, err := m.admin.Do(m.t.Context(), "eval", "return #redis.call('KEYS', '*:last')", 0).Int()
		size, err2 := m.admin.DBSize(m.t.Context()).Result()
		return err == nil && err2 == nil && n == m.many && size <= int64(n+2)
	})
	says("remembered fence", used()-empty, capacity.Measured.RememberedBytes)

	before := used()
	conns := make([]*redis.Client, 200)
	for i := range conns {
		conns[i] = redis.NewClient(&redis.Options{Addr: m.server.Addr()})
		require.NoError(m.t, conns[i].Ping(m.t.Context()).Err())
	}
	fmt.Fprintf(out, "%-32s %9d B  %9d B\n", "connection", (used()-before)/int64(len(conns)), capacity.Measured.ConnectionBytes)
	for _, conn := range conns {
		assert.NoError(m.t, conn.Close())
	}
}

// connections prints how many a process has.
func (m *meter) connections(out *strings.Builder) {
	count := func() int64 {
		info, err := m.admin.InfoMap(m.t.Context(), "clients").Result()
		require.NoError(m.t, err)
		n, _ := strconv.ParseInt(info["Clients"]["connected_clients"], 10, 64)
		return n
	}
	runtime.GC()
	m.until(func() bool { return count() <= 2 })
	none := count()
	gs, end := m.guards(1, guard.TTL(time.Second))
	defer end()
	says := func(what string, known int) { fmt.Fprintf(out, "%-32s %12d %12d\n", what, count()-none, known) }
	require.NoError(m.t, gs[0].WithLock(m.t.Context(), guard.Key("one"), nothing))
	says("connections after a cycle", 0)
	release := m.hold(gs, 1)
	before := m.scripts()
	m.until(func() bool { return m.scripts() > before })
	says("connections while it holds", capacity.Measured.Connections)
	release()
	_ = m.repeat(128, func(caller int) error {
		return gs[0].WithLock(m.t.Context(), guard.Keyf("free:%d", caller), nothing)
	})
	says("connections of 128 callers", capacity.Measured.MostConnections)
}
