package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// topology is how many servers there are, and what may happen to them at a time.
type topology struct {
	name     string
	size     int
	minority int           // how many servers may be faulty at a time
	recovery time.Duration // how long one counts as faulty after it is healed
	short    time.Duration // how long a run is by default
	start    func(t *testing.T, size int, args ...string) ([]*redistest.Server, *group)
	faults   []fault // besides those of any server
}

// A quorum survives what happens to a minority. A server that comes back empty is part
// of it again after the next renewal of each lock. Where servers follow each other, one
// is faulty at a time, and all have to be healthy before the next.
var topologies = []topology{
	{name: "single", size: 1, minority: 1, short: 5 * time.Second, start: startAlone},
	{name: "quorum", size: 5, minority: 2, recovery: 2 * time.Second, short: 5 * time.Second, start: startAlone},
	{name: "sentinel", size: 3, minority: 1, short: 4 * time.Second, start: startSentinel, faults: sentinelFaults},
	{name: "cluster", size: 6, minority: 1, short: 4 * time.Second, start: startCluster, faults: clusterFaults},
}

// startAlone starts servers that know nothing of each other.
func startAlone(t *testing.T, size int, args ...string) ([]*redistest.Server, *group) {
	t.Helper()
	return redistest.StartN(t, size, args...), nil
}

// network is the servers, and a proxy from each worker to each of them.
type network struct {
	topology
	protocol int // RESP
	servers  []*redistest.Server
	admins   []*redis.Client
	links    [workerCount][]*redistest.Proxy // by worker and server
	clocks   clocks                          // of the servers; nil = all have the machine's
	group    *group                          // nil if the servers know nothing of each other
	monitor  *monitor                        // of the group
}

// newNetwork starts the servers. They write down what they do before they answer, so
// that a server which is killed and restarted forgets nothing unless a fault says so.
func newNetwork(t *testing.T, topo topology, seed uint64) *network {
	t.Helper()
	n := &network{topology: topo, protocol: 2 + int(seed%2)}
	if why := ownClocks(t); why != "" {
		t.Log("the servers' clocks stay as they are: ", why)
	}
	n.servers, n.group = topo.start(t, topo.size, "--appendonly", "yes", "--appendfsync", "no",
		"--auto-aof-rewrite-percentage", "0")
	for _, s := range n.servers {
		admin := s.Client(t, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, 5*time.Second })
		dir, err := admin.ConfigGet(t.Context(), "dir").Result()
		require.NoError(t, err)
		n.admins = append(n.admins, admin)
		if c := openClock(t, dir["dir"]); c != nil {
			n.clocks = append(n.clocks, c)
		}
	}
	if n.clocks != nil {
		n.faults = append(slices.Clip(n.faults), clockFaults...)
	}
	for i := range n.links {
		for _, s := range n.servers {
			n.links[i] = append(n.links[i], redistest.NewProxy(t, s.Addr()))
		}
	}
	if n.group != nil {
		n.monitor = newMonitor(t, n.group, n.clocks)
	}
	return n
}

// order is the order of the i-th worker.
func (n *network) order(i int, seed uint64) order {
	o := order{Topology: n.name, Seed: seed + uint64(i)<<56, Protocol: n.protocol, Detours: make(map[string]string)}
	entrances := n.servers
	if n.group != nil {
		entrances = n.group.watchers
	}
	for _, s := range entrances {
		o.Addrs = append(o.Addrs, s.Addr())
	}
	for j, s := range n.servers {
		o.Detours[s.Addr()] = n.links[i][j].Addr()
	}
	return o
}

// isPrimary returns whether a server takes writes.
func (n *network) isPrimary(server int) bool {
	return n.monitor == nil || n.monitor.isPrimary(server)
}

// leftoverTimeout is how long after the end a lock may stay: that of a worker that was
// killed late, or closed while Redis did not answer. Clocks may have been set back meanwhile.
const leftoverTimeout = 2*longestTTL + 2*farClock + 5*time.Second

// leftovers returns what stays for too long, or should have gone with the workers that ended in good order. Places in a
// queue of those that were killed stay for a minute.
func (n *network) leftovers(t *testing.T, instances []string) (left []string) {
	t.Helper()
	for begun := time.Now(); ; rest(50*time.Millisecond, nil) {
		left = nil
		for i, admin := range n.admins {
			for range admin.PubSubChannels(t.Context(), "redlatch:*").Val() {
				left = append(left, "a subscription")
			}
			if n.isPrimary(i) { // else it has what another has, too
				left = append(left, n.leftoversOf(t, i, instances)...)
			}
		}
		if len(left) == 0 || time.Since(begun) > leftoverTimeout {
			return left
		}
	}
}

func (n *network) leftoversOf(t *testing.T, server int, instances []string) (left []string) {
	t.Helper()
	ctx, admin := t.Context(), n.admins[server]
	names, err := admin.Keys(ctx, "*").Result()
	require.NoError(t, err)
	for _, name := range names {
		ttl, err := admin.PTTL(ctx, name).Result()
		require.NoError(t, err)
		if ttl == -1 {
			left = append(left, fmt.Sprintf("%q has no ttl", name))
		}
		var waiting []string
		switch part := name[strings.LastIndexByte(name, '}')+1:]; {
		case part == "" && ttl != -2:
			left = append(left, fmt.Sprintf("%q is locked for %v", name, ttl))
		case part == ":ended" && ttl > n.clocks.remembered(server):
			left = append(left, fmt.Sprintf("%q stays for %v, longer than %v", name, ttl, n.clocks.remembered(server)))
		case part == ":queue", part == ":wake":
			waiting = admin.ZRange(ctx, name, 0, -1).Val()
		case part == ":seen":
			waiting = admin.HKeys(ctx, name).Val()
		}
		for _, owner := range waiting {
			if instance, _, _ := strings.Cut(owner, "-"); slices.Contains(instances, instance) {
				left = append(left, fmt.Sprintf("%q holds a place of a worker that ended in good order", name))
			}
		}
	}
	return left
}
