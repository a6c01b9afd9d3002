package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	settleTimeout = 60 * time.Second
)

// group is servers of which some follow others, and watchers, which tell clients which server serves what: the nodes
// of a cluster themselves, or Sentinels.
type group struct {
	servers, watchers []*redistest.Server
	admins, asked     []*redis.Client // of both

	opinion func(watcher *redis.Client) opinion
	replace func(replica int) error // promotes a replica; Sentinel chooses which
	planned bool                    // the primary takes part in replace: nothing is lost
	migrate func(tb testing.TB, key string) *redistest.Migration
	notice  time.Duration // how long clients may go on with a server after all agree that it was replaced
}

// opinion is which server serves what, as one watcher sees it. Each address stands between spaces.
type opinion struct {
	text   string // nothing if the watcher does not serve
	silent bool   // it may tell clients something else, and does not answer
}

func newGroup(t *testing.T, servers, watchers []*redistest.Server) *group {
	t.Helper()
	g := &group{servers: servers, watchers: watchers}
	for _, s := range servers {
		g.admins = append(g.admins, s.Client(t, impatient))
	}
	for _, w := range watchers {
		g.asked = append(g.asked, w.Client(t, impatient))
	}
	return g
}

// impatient makes a client notice soon that a server hangs.
func impatient(o *redis.Options) {
	o.Protocol, o.MaxRetries, o.DialerRetries = 2, -1, 1
	o.DialTimeout, o.ReadTimeout = 500*time.Millisecond, 500*time.Millisecond
}

// startCluster starts three primaries with a replica each. A node that knows that it was replaced grants nothing more.
func startCluster(t *testing.T, _ int, args ...string) ([]*redistest.Server, *group) {
	t.Helper()
	c := redistest.StartCluster(t, args...)
	g := newGroup(t, c.Nodes(), c.Nodes())
	g.opinion, g.planned, g.migrate = nodeOpinion, true, c.Migrate
	g.replace = func(replica int) error {
		return g.admins[replica].Do(context.Background(), "cluster", "failover").Err()
	}
	return g.servers, g
}

func nodeOpinion(node *redis.Client) opinion {
	info, err := node.ClusterInfo(context.Background()).Result()
	if err != nil || !strings.Contains(info, "cluster_state:ok") {
		return opinion{silent: isSilent(err)}
	}
	//nolint:staticcheck // CLUSTER SHARDS lists replicas before they are of use
	slots, err := node.ClusterSlots(context.Background()).Result()
	if err != nil || slices.ContainsFunc(slots, func(r redis.ClusterSlot) bool { return len(r.Nodes) == 0 }) {
		return opinion{silent: isSilent(err)}
	}
	slices.SortFunc(slots, func(a, b redis.ClusterSlot) int { return a.Start - b.Start })
	var text strings.Builder
	for _, r := range slots {
		fmt.Fprintf(&text, "%d-%d %s ", r.Start, r.End, r.Nodes[0].Addr)
	}
	return opinion{text: text.String()}
}

// startSentinel starts one primary, its replicas, and the Sentinels that watch them. A Guard asks once a second. go-redis
// leaves a sentinel that hangs after two more, and what a loaded machine adds.
func startSentinel(t *testing.T, _ int, args ...string) ([]*redistest.Server, *group) {
	t.Helper()
	s := redistest.StartSentinel(t, args...)
	g := newGroup(t, s.Servers(), s.Sentinels())
	g.opinion, g.notice = sentinelOpinion, 4*time.Second
	g.replace = func(int) error {
		return g.asked[0].Do(context.Background(), "sentinel", "failover", redistest.MasterName).Err()
	}
	for _, c := range g.asked {
		// There is no other failover for twice that time, but by an order.
		require.NoError(t, c.Do(t.Context(), "sentinel", "set", redistest.MasterName, "failover-timeout", 3000).Err())
	}
	return g.servers, g
}

// sentinelOpinion has the flags, too, which differ during a failover.
func sentinelOpinion(sentinel *redis.Client) opinion {
	addr, err := sentinel.Do(context.Background(), "sentinel", "get-master-addr-by-name", redistest.MasterName).StringSlice()
	if err != nil || len(addr) != 2 {
		return opinion{silent: isSilent(err)}
	}
	known, err := sentinel.Do(context.Background(), "sentinel", "master", redistest.MasterName).StringSlice()
	if err != nil {
		return opinion{silent: isSilent(err)}
	}
	return opinion{text: fmt.Sprintf(" %s:%s %s", addr[0], addr[1], known[slices.Index(known, "flags")+1])}
}

// isSilent returns whether an error may be of a server that runs.
func isSilent(err error) bool { return err != nil && !errors.Is(err, syscall.ECONNREFUSED) }

// roleOf returns whether a server says that it takes writes, or that it follows one that does.
func roleOf(server *redis.Client) (primary, follows bool) {
	role, err := server.Do(context.Background(), "role").Slice()
	if err != nil || len(role) < 3 {
		return false, false
	}
	return role[0] == "master", role[0] == "slave" && len(role) > 3 && role[3] == "connected"
}

// view is which server serves what.
type view struct {
	text      string // what all watchers that answer agree about, or nothing
	silent    bool   // a watcher may say something else, and does not answer
	primaries []int
	healthy   bool // every watcher answers, and every server has the expected role
}

// look asks all watchers and servers at once.
func (g *group) look() view {
	var asking sync.WaitGroup
	opinions, primary, follows := make([]opinion, len(g.asked)), make([]bool, len(g.admins)), make([]bool, len(g.admins))
	for i, c := range g.asked {
		asking.Go(func() { opinions[i] = g.opinion(c) })
	}
	for i, c := range g.admins {
		asking.Go(func() { primary[i], follows[i] = roleOf(c) })
	}
	asking.Wait()
	v := view{healthy: true}
	for _, o := range opinions {
		switch {
		case o.text == "":
			v.healthy, v.silent = false, v.silent || o.silent
		case v.text == "":
			v.text = o.text
		case v.text != o.text:
			return view{}
		}
	}
	for i, s := range g.servers {
		serves := strings.Contains(v.text, " "+s.Addr()+" ")
		if serves {
			v.primaries = append(v.primaries, i)
		}
		v.healthy = v.healthy && serves == primary[i] && serves != follows[i]
	}
	return v
}

// monitor looks at a group all the time. What its primaries knew may be lost when others
// are promoted.
type monitor struct {
	*group
	clocks clocks
	stop   chan struct{}
	done   chan struct{}

	mu        sync.Mutex // protects what follows
	view      view
	at        int64 // the last instant at which all agreed about view, for sure
	healthy   bool
	disturbed int // how often
	replaced  int // in how many looks the primaries were others than in view
	losses    []loss
	expected  bool // the next replacement loses nothing
}

func newMonitor(t *testing.T, g *group, cs clocks) *monitor {
	k := &monitor{group: g, clocks: cs, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(k.done)
		for ; !isClosed(k.stop); rest(lookPulse, k.stop) {
			before, at := locked(k, func() int { return k.disturbed }), stamp()
			k.take(k.look(), at, before)
		}
	}()
	t.Cleanup(func() { close(k.stop); <-k.done })
	k.settle(t)
	return k
}

// take takes in a view. What was done to a server since the look began does not show in it.
func (k *monitor) take(v view, at int64, before int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.healthy = v.healthy && k.disturbed == before
	if v.text == "" {
		return
	}
	replaced := k.view.text != "" && !slices.Equal(k.view.primaries, v.primaries)
	if replaced {
		k.replaced++
	}
	if v.silent {
		return
	}
	if replaced {
		span := span{k.at, stamp() + int64(k.notice)}
		if !k.expected {
			k.losses = append(k.losses, loss{span: span, twice: true})
		} else if k.clocks.differ() {
			k.losses = append(k.losses, loss{span: span}) // keys expire earlier where the clock is ahead
		}
		k.expected = false
	}
	k.view, k.at = v, at
}

func locked[T any](k *monitor, get func() T) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return get()
}

// disturb notes that a server is not well, as the next look may show.
func (k *monitor) disturb() {
	locked(k, func() any { k.disturbed++; k.healthy = false; return nil })
}

// expect notes whether the next replacement loses nothing.
func (k *monitor) expect(planned bool) { locked(k, func() any { k.expected = planned; return nil }) }

// replacement returns whether primaries were replaced since it was called.
func (k *monitor) replacement() (happened func() bool) {
	count := func() int { return k.replaced }
	before := locked(k, count)
	return func() bool { return locked(k, count) > before }
}

func (k *monitor) isHealthy() bool { return locked(k, func() bool { return k.healthy }) }

func (k *monitor) isPrimary(server int) bool {
	return locked(k, func() bool { return slices.Contains(k.view.primaries, server) })
}

// settle waits until all is as it should be.
func (k *monitor) settle(tb testing.TB) {
	tb.Helper()
	for begun := time.Now(); !k.isHealthy(); rest(lookPulse, nil) {
		if time.Since(begun) > settleTimeout {
			tb.Fatalf("the servers do not find together: %+v", k.look())
		}
	}
}

// lost returns the times when data may have been lost.
func (k *monitor) lost() []loss { return locked(k, func() []loss { return slices.Clone(k.losses) }) }
