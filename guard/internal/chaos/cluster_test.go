package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/internal/redistest"
)

// cluster is three primaries with a replica each.
type cluster struct {
	*redistest.Cluster
	admins []*redis.Client
}

func startCluster(t *testing.T, _ int, args ...string) ([]*redistest.Server, group) {
	t.Helper()
	g := &cluster{Cluster: redistest.StartCluster(t, args...)}
	for _, s := range g.Nodes() {
		g.admins = append(g.admins, s.Client(t, impatient))
	}
	return g.Nodes(), g
}

func (g *cluster) startupAddrs() (addrs []string) {
	for _, s := range g.Nodes() {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// A node that knows that it was replaced grants nothing more.
func (g *cluster) notice() time.Duration { return 0 }

// repair has nothing to do: the nodes of a cluster notify each other.
func (g *cluster) repair(int, view) {}

// nodeState is what a node says.
type nodeState struct {
	silent     bool // it may work, but does not answer
	ok         bool // it serves
	role       string
	assignment string
	primaries  []string
}

func (g *cluster) look() view {
	states := make([]nodeState, len(g.admins))
	var asking sync.WaitGroup
	for i, c := range g.admins {
		asking.Go(func() { states[i] = stateOf(c) })
	}
	asking.Wait()
	v := view{healthy: true}
	for _, w := range states {
		switch {
		case w.ok && v.assignment != "" && w.assignment != v.assignment:
			return view{}
		case !w.ok:
			v.healthy, v.silent = false, v.silent || w.silent
		case v.assignment == "":
			v.assignment, v.primaries = w.assignment, g.indices(w.primaries)
		}
	}
	v.full = !v.silent
	for i, w := range states {
		if w.role != "master" && !strings.HasSuffix(w.role, ": connected") || (w.role == "master") != slices.Contains(v.primaries, i) {
			v.healthy = false
		}
	}
	return v
}

func (g *cluster) indices(addrs []string) (servers []int) {
	for i, s := range g.Nodes() {
		if slices.Contains(addrs, s.Addr()) {
			servers = append(servers, i)
		}
	}
	return servers
}

func stateOf(c *redis.Client) (w nodeState) {
	ctx := context.Background()
	info, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return nodeState{silent: !isGone(err)}
	}
	//nolint:staticcheck // CLUSTER SHARDS lists replicas before they are of use
	slots, err := c.ClusterSlots(ctx).Result()
	if err != nil {
		return nodeState{silent: !isGone(err)}
	}
	w.ok, w.role = strings.Contains(info, "cluster_state:ok"), roleOf(c)
	var parts []string
	for _, r := range slots {
		w.ok = w.ok && len(r.Nodes) > 0
		if len(r.Nodes) > 0 {
			parts = append(parts, fmt.Sprintf("%d-%d: %s", r.Start, r.End, r.Nodes[0].Addr))
			w.primaries = append(w.primaries, r.Nodes[0].Addr)
		}
	}
	slices.Sort(parts)
	w.assignment = strings.Join(parts, ", ")
	return w
}

// replace promotes a replica in agreement with its primary: nothing is lost.
func (g *cluster) replace(replica int) (planned bool, err error) {
	return true, g.admins[replica].Do(context.Background(), "cluster", "failover").Err()
}
