package redistest

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterPrimaries = 3
	clusterSlots     = 16384

	// formTimeout is how long servers may take to find each other.
	formTimeout = 30 * time.Second
	formPoll    = 20 * time.Millisecond
)

// Cluster is a Redis Cluster: three primaries, which share the slots evenly, and
// a replica of each. Its methods may be called from any goroutine.
type Cluster struct {
	nodes []*Server // the first three began as primaries, the others as their replicas
	admin map[*Server]*redis.Client
}

// StartCluster runs a cluster of tb's own, as Start runs a server, and returns
// when every node sees all of it and the replicas have caught up. A node that
// does not answer for a second counts as gone. Extra arguments go to every node.
func StartCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	args = append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0",
		// A replica is not listed before it knows its primary.
		"--repl-ping-replica-period", "1",
	}, args...)
	c := &Cluster{admin: make(map[*Server]*redis.Client)}
	for range 2 * clusterPrimaries {
		s := Start(tb, args...)
		c.nodes = append(c.nodes, s)
		c.admin[s] = s.Client(tb, decisive)
	}
	for i, s := range c.nodes {
		must(tb, "introduce a node", c.introduce(s.Client(tb), i)) // patient: the machine may be busy
	}
	for i, s := range c.nodes[clusterPrimaries:] {
		id, err := c.admin[c.nodes[i]].ClusterMyID(context.Background()).Result()
		must(tb, "find a primary's id", err)
		// A node can follow another when it knows it.
		eventually(tb, "replicate", func(ctx context.Context) error { return c.admin[s].ClusterReplicate(ctx, id).Err() })
	}
	eventually(tb, "form a cluster", c.complete)
	return c
}

// decisive has a call tell soon, and once, what it finds.
func decisive(o *redis.Options) {
	o.Protocol, o.MaxRetries, o.DialerRetries = 2, -1, 1
	o.DialTimeout, o.ReadTimeout = 500*time.Millisecond, 500*time.Millisecond
}

// introduce gives a new node its slots, if it is to be a primary, and has it meet
// those before it.
func (c *Cluster) introduce(admin *redis.Client, i int) (err error) {
	ctx := context.Background()
	if i < clusterPrimaries {
		first, last := i*clusterSlots/clusterPrimaries, (i+1)*clusterSlots/clusterPrimaries-1
		err = admin.ClusterAddSlotsRange(ctx, first, last).Err()
	}
	err = errors.Join(err, admin.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
	for _, other := range c.nodes[:i] {
		err = errors.Join(err, admin.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(other.port)).Err())
	}
	return err
}

var errForming = errors.New("not complete yet")

// complete reports whether every node sees all slots with a primary and a replica,
// and every replica has its data.
func (c *Cluster) complete(ctx context.Context) error {
	for i, s := range c.nodes {
		info, err := c.admin[s].ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		slots, err := c.slots(ctx, s)
		alone := func(r redis.ClusterSlot) bool { return len(r.Nodes) != 2 }
		if err != nil || !strings.Contains(info, "cluster_state:ok") || len(slots) != clusterPrimaries || slices.ContainsFunc(slots, alone) {
			return cmp.Or(err, errForming)
		}
		if i >= clusterPrimaries {
			if err := caughtUp(ctx, c.admin[s]); err != nil {
				return err
			}
		}
	}
	return nil
}

// slots is which node serves which slots, by one node.
func (c *Cluster) slots(ctx context.Context, s *Server) ([]redis.ClusterSlot, error) {
	//nolint:staticcheck // CLUSTER SHARDS lists replicas before they are of use
	return c.admin[s].ClusterSlots(ctx).Result()
}

// caughtUp reports whether a replica has its primary's data.
func caughtUp(ctx context.Context, replica *redis.Client) error {
	info, err := replica.InfoMap(ctx, "replication").Result()
	if err == nil && info["Replication"]["master_link_status"] != "up" {
		err = errForming
	}
	return err
}

// must fails tb if something went wrong.
func must(tb testing.TB, what string, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("redistest: %s: %v", what, err)
	}
}

// eventually repeats a function until it succeeds. It fails tb if that takes too long.
func eventually(tb testing.TB, what string, step func(ctx context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), formTimeout)
	defer cancel()
	err := step(ctx)
	for ; err != nil && ctx.Err() == nil; err = step(ctx) {
		time.Sleep(formPoll)
	}
	must(tb, what, err)
}

// Nodes are the servers of the cluster.
func (c *Cluster) Nodes() []*Server { return c.nodes }

// Client returns a client with go-redis's default options, changed by opts, and
// closes it when tb ends.
func (c *Cluster) Client(tb testing.TB, opts ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	tb.Helper()
	o := &redis.ClusterOptions{}
	for _, s := range c.nodes {
		o.Addrs = append(o.Addrs, s.Addr())
	}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewClusterClient(o)
	closeAtEnd(tb, client)
	return client
}

// Proxied puts a proxy in front of every node. Clients made with the option go
// through them, whatever addresses the nodes tell them.
func (c *Cluster) Proxied(tb testing.TB) (proxies map[*Server]*Proxy, through func(*redis.ClusterOptions)) {
	tb.Helper()
	proxies = make(map[*Server]*Proxy)
	detour := make(map[string]string)
	for _, s := range c.nodes {
		proxies[s] = NewProxy(tb, s.Addr())
		detour[s.Addr()] = proxies[s].Addr()
	}
	return proxies, func(o *redis.ClusterOptions) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			d := net.Dialer{Timeout: o.DialTimeout}
			return d.DialContext(ctx, network, detour[addr])
		}
	}
}

// Primary finds the node that serves a key, by its own word. It is nil while
// none does, as during a failover.
func (c *Cluster) Primary(key string) *Server {
	ctx := context.Background()
	for _, s := range c.nodes {
		slot, err := c.admin[s].ClusterKeySlot(ctx, key).Result()
		if err != nil {
			continue // it is down
		}
		ranges, _ := c.slots(ctx, s)
		for _, r := range ranges {
			if r.Start <= int(slot) && int(slot) <= r.End && r.Nodes[0].Addr == s.Addr() {
				return s
			}
		}
	}
	return nil
}
