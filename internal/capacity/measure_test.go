package capacity_test

import (
	"context"
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

func newMeter(t *testing.T, server *redistest.Server) *meter {
	t.Helper()
	m := &meter{t: t, server: server, admin: server.Client(t), each: 100 * time.Millisecond, many: 200}
	if *large {
		m.each, m.many = time.Second, 2000
	}
	began, before := time.Now(), m.core()
	time.Sleep(m.each)
	m.idle = float64(m.core()-before) / float64(time.Since(began))
	return m
}

// TestMeasure_MeasuredParts measures the service times and sizes that package capacity calculates with, and
// prints them beside those. They are the time of Redis's main thread, so that a busy machine does
// not matter much. Without -large it only shows that each can be measured.
func TestMeasure_MeasuredParts(t *testing.T) {
	m, known, rounds := newMeter(t, redistest.Start(t)), capacity.Measured, 1
	if *large {
		rounds = 3
	}
	nodes := redistest.StartCluster(t).Nodes()
	t.Logf("%-32s %12s %12s  (medians of %d rounds)", "", "this run", "known", rounds)
	for _, s := range []struct {
		name    string
		measure func() time.Duration
		known   time.Duration
	}{
		{"free cycle, alone", m.cycles(32, 1, 1), known.Cycle},
		{"free cycle, 128 callers", m.cycles(1, 128, 1), known.SharedCycle},
		{"hand-over between processes", m.cycles(64, 1, 4), known.HandOver},
		{"busy answer", m.refused(32, 1, guard.NoWait()), known.Busy},
		{"renewal, alone", m.renewals(min(m.many/4, 500), 1, 300*time.Millisecond), known.RenewalAlone},
		{"renewal, in pipelines of 500", m.renewals(1, max(5*m.many, 500), 3*time.Second), known.Renewal},
		{"enter and leave a queue", m.refused(64, 64, guard.Wait(5*time.Millisecond)), known.Queue}, // before it asks again
		{"wait in front, each second", m.waits, known.Waiting},
		{"new connection", m.connects, known.Connect},
		{"message, on its node", messages(newMeter(t, nodes[0]), nodes[0]), known.Publish},
		{"message, on each other node", messages(newMeter(t, nodes[1]), nodes[0]), known.Forward},
	} {
		found := make([]time.Duration, rounds)
		for i := range found {
			require.NoError(t, m.admin.FlushAll(t.Context()).Err())
			found[i] = s.measure()
		}
		slices.Sort(found)
		cost := found[rounds/2]
		assert.Positive(t, cost, s.name)
		t.Logf("%-32s %9.1f µs %9.1f µs  %v", s.name, micro(cost), micro(s.known), found)
	}
	m.connections()
	m.memory()
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// info is a figure of INFO.
func (m *meter) info(section, name string) float64 {
	m.t.Helper()
	all, err := m.admin.InfoMap(m.t.Context(), section).Result()
	require.NoError(m.t, err)
	for _, figures := range all {
		if text, is := figures[name]; is {
			text, _, _ = strings.Cut(strings.TrimPrefix(text, "calls="), ",")
			n, err := strconv.ParseFloat(text, 64)
			require.NoError(m.t, err)
			return n
		}
	}
	return 0
}

// core is how long the main thread has worked.
func (m *meter) core() time.Duration {
	return time.Duration((m.info("cpu", "used_cpu_user_main_thread") + m.info("cpu", "used_cpu_sys_main_thread")) * float64(time.Second))
}

func (m *meter) scripts() int64 { return int64(m.info("commandstats", "cmdstat_evalsha")) }

// spent is what the server spends on one of n things that f does.
func (m *meter) spent(f func() (n int64)) time.Duration {
	m.t.Helper()
	began, before := time.Now(), m.core()
	n := f()
	spent := m.core() - before - time.Duration(m.idle*float64(time.Since(began)))
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
			err := do(caller)
			for warm.Done(); err == nil && !closed(stop); done.Add(1) {
				err = do(caller)
			}
			assert.NoError(m.t, err)
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
	clients := make([]*redis.Client, n)
	for i := range clients {
		clients[i] = redis.NewClient(&redis.Options{Addr: m.server.Addr()})
		g, err := guard.New(clients[i], append([]guard.Option{guard.StoreTimeout(time.Minute)}, opts...)...)
		require.NoError(m.t, err)
		all = append(all, g)
	}
	return all, func() {
		for i, g := range all {
			assert.NoError(m.t, g.Close())
			assert.NoError(m.t, clients[i].Close())
		}
	}
}

func nothing(context.Context) error { return nil }

// cycles is WithLock in processes with some callers each, of which so many want the same key.
func (m *meter) cycles(processes, callers, wanting int) func() time.Duration {
	return func() time.Duration {
		gs, end := m.guards(processes)
		defer end()
		return m.repeat(processes*callers, func(caller int) error {
			return gs[caller%processes].WithLock(m.t.Context(), guard.Keyf("free:%d", caller/wanting), nothing)
		})
	}
}

// refused is WithLock in so many processes on keys that are held.
func (m *meter) refused(processes, keys int, wait guard.LockOption) func() time.Duration {
	return func() time.Duration {
		gs, end := m.guards(processes + 1)
		defer end()
		defer m.hold(gs[processes:], keys)()
		return m.repeat(processes, func(caller int) error {
			err := gs[caller].WithLock(m.t.Context(), guard.Keyf("held:%d", caller%keys), nothing, wait)
			assert.ErrorIs(m.t, err, guard.ErrBusy)
			return nil
		})
	}
}

// renewals are those of held locks. All of a server's scripts are, meanwhile.
func (m *meter) renewals(processes, locks int, ttl time.Duration) func() time.Duration {
	return func() time.Duration {
		gs, end := m.guards(processes, guard.TTL(ttl))
		defer end()
		defer m.hold(gs, locks)()
		time.Sleep(m.each / 10)
		return m.spent(func() int64 {
			before := m.scripts()
			time.Sleep(max(m.each, ttl/3+ttl/10))
			return m.scripts() - before
		})
	}
}

// hold has each process take so many locks.
func (m *meter) hold(gs []*guard.Guard, locks int) (release func()) {
	var taking sync.WaitGroup
	leases := make([]*guard.Lease, len(gs)*locks)
	for i := range leases {
		taking.Go(func() {
			var err error
			leases[i], err = gs[i%len(gs)].Acquire(m.t.Context(), guard.Keyf("held:%d", i))
			assert.NoError(m.t, err)
		})
	}
	taking.Wait()
	return func() { // a short ttl may end before, on a busy machine
		for _, lease := range leases {
			taking.Go(func() { _ = lease.Release(context.WithoutCancel(m.t.Context())) })
		}
		taking.Wait()
	}
}

// wait has callers wait for held locks, the i-th in its process.
func (m *meter) wait(n int, process func(i int) *guard.Guard) (leave func()) {
	ctx, cancel := context.WithCancel(m.t.Context())
	var waiting sync.WaitGroup
	for i := range n {
		waiting.Go(func() {
			_, err := process(i).Acquire(ctx, guard.Keyf("held:%d", i))
			assert.ErrorIs(m.t, err, context.Canceled)
		})
	}
	m.until(func() bool {
		queues, err := m.admin.Do(m.t.Context(), "eval", "return #redis.call('KEYS', '*:seen')", 0).Int()
		return err == nil && queues == n
	})
	return func() { cancel(); waiting.Wait() }
}

// waits is what a process costs that waits in front of a queue, each second.
func (m *meter) waits() time.Duration {
	processes := min(m.many, 300)
	gs, end := m.guards(processes + 1)
	defer end()
	defer m.hold(gs[processes:], processes)()
	defer m.wait(processes, func(i int) *guard.Guard { return gs[i] })()
	time.Sleep(m.each / 10)
	length := 2 * max(m.each, time.Second) // each asks once a second
	return m.spent(func() int64 {
		time.Sleep(length)
		return int64(float64(processes) * length.Seconds())
	})
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

// messages is what a PUBLISH to a node of a cluster costs a node.
func messages(m *meter, to *redistest.Server) func() time.Duration {
	client := to.Client(m.t)
	return func() time.Duration {
		return m.repeat(16, func(int) error { return client.Publish(m.t.Context(), "redlatch:grant:nobody", "?").Err() })
	}
}

// memory prints what a key in each of its states takes, of what Redis says that it uses, and a connection.
func (m *meter) memory() {
	gs, end := m.guards(2)
	defer end()
	for i := range gs {
		m.hold(gs[i:i+1], 256)() // what there is once is there now
	}
	require.NoError(m.t, m.admin.FlushAll(m.t.Context()).Err())
	before := m.info("memory", "used_memory")
	says := func(what string, of int, known int) (used float64) {
		used = m.info("memory", "used_memory")
		m.t.Logf("%-32s %9.0f B  %9d B", what, (used-before)/float64(of), known)
		return used
	}
	empty, release := before, m.hold(gs[:1], m.many)
	before = says("held lock, with its fence", m.many, capacity.Measured.HeldBytes)
	leave := m.wait(m.many, func(int) *guard.Guard { return gs[1] })
	says("queue of a key, with one claim", m.many, capacity.Measured.QueueBytes)
	leave()
	release()
	m.until(func() bool {
		keys, err := m.admin.DBSize(m.t.Context()).Result()
		return err == nil && keys <= int64(m.many+2)
	})
	before = empty
	before = says("remembered fence", m.many, capacity.Measured.RememberedBytes)
	conns := make([]*redis.Client, 200)
	for i := range conns {
		conns[i] = m.server.Client(m.t)
		require.NoError(m.t, conns[i].Ping(m.t.Context()).Err())
	}
	says("connection", len(conns), capacity.Measured.ConnectionBytes)
}

// connections prints how many a process has that holds a lock, and one with many callers.
func (m *meter) connections() {
	none := m.info("clients", "connected_clients")
	gs, end := m.guards(1, guard.TTL(time.Second))
	defer end()
	says := func(what string, known int) {
		m.t.Logf("%-32s %12.0f %12d", what, m.info("clients", "connected_clients")-none, known)
	}
	release, before := m.hold(gs, 1), m.scripts()
	m.until(func() bool { return m.scripts() > before })
	says("connections while it holds", capacity.Measured.Connections)
	release()
	m.hold(gs, 128)()
	says("connections of 128 callers", capacity.Measured.MostConnections)
}
