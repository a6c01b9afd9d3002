package chaos_test

import (
	"os"
	"path/filepath"
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
	minority int           // how many servers may be harmed at a time
	recovery time.Duration // how long one counts as harmed after it is healed
}

// A quorum survives what happens to a minority. A server that comes back empty is part
// of it again after the next renewal of each lock.
var topologies = []topology{
	{name: "single", size: 1, minority: 1},
	{name: "quorum", size: 5, minority: 2, recovery: 2 * time.Second},
}

// network is the servers, and a proxy from each worker to each of them.
type network struct {
	topology
	servers []*redistest.Server
	admins  []*redis.Client
	dirs    []string                     // where the servers keep their data
	links   [crewSize][]*redistest.Proxy // by worker and server
}

// newNetwork starts the servers. They write down what they do before they answer, so
// that a server which is killed and restarted forgets nothing unless it is told to.
func newNetwork(t *testing.T, topo topology) *network {
	t.Helper()
	n := &network{topology: topo}
	for range topo.size {
		s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
			"--enable-debug-command", "local")
		admin := s.Client(t, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, 5*time.Second })
		dir, err := admin.ConfigGet(t.Context(), "dir").Result()
		require.NoError(t, err)
		n.servers, n.admins, n.dirs = append(n.servers, s), append(n.admins, admin), append(n.dirs, dir["dir"])
	}
	for i := range n.links {
		for _, s := range n.servers {
			n.links[i] = append(n.links[i], redistest.NewProxy(t, s.Addr()))
		}
	}
	return n
}

// order is what the i-th worker is told.
func (n *network) order(i int, seed uint64) order {
	o := order{Topology: n.name, Callers: callers, Seed: seed + uint64(i)<<56}
	for _, p := range n.links[i] {
		o.Addrs = append(o.Addrs, p.Addr())
	}
	return o
}

// forget deletes what a server that is down wrote down.
func (n *network) forget(server int) error {
	return os.RemoveAll(filepath.Join(n.dirs[server], "appendonlydir"))
}
