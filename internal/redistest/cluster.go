package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	ctx, cancel := context.WithTimeout(context.Background(), formTimeout)
	defer cancel()
	if err := c.form(ctx); err != nil {
		tb.Fatalf("redistest: cluster: %v", err)
	}
	return c
}

// decisive has a call tell soon, and once, what it finds.
func decisive(o *redis.Options) {
	o.Protocol, o.MaxRetries, o.DialerRetries = 2, -1, 1
	o.DialTimeout, o.ReadTimeout = 500*time.Millisecond, 500*time.Millisecond
}

func (c *Cluster) form(ctx context.Context) error {
	for i, s := range c.nodes {
		if err := c.introduce(ctx, s, i); err != nil {
			return fmt.Errorf("introduce %s: %w", s.Addr(), err)
		}
	}
	for i, s := range c.nodes[clusterPrimaries:] {
		id, err := c.admin[c.nodes[i]].ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		// A node can follow another when it knows it.
		if err := eventually(ctx, func() error { return c.admin[s].ClusterReplicate(ctx, id).Err() }); err != nil {
			return fmt.Errorf("replicate: %w", err)
		}
	}
	return eventually(ctx, func() error { return c.complete(ctx) })
}

// introduce gives a new node its slots, if it is to be a primary, and has it meet
// those before it.
func (c *Cluster) introduce(ctx context.Context, s *Server, i int) error {
	admin := c.admin[s]
	if i < clusterPrimaries {
		first, last := i*clusterSlots/clusterPrimaries, (i+1)*clusterSlots/clusterPrimaries-1
		if err := admin.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			return err
		}
	}
	if err := admin.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
		return err
	}
	for _, other := range c.nodes[:i] {
		host, port, _ := net.SplitHostPort(other.Addr())
		if err := admin.ClusterMeet(ctx, host, port).Err(); err != nil {
			return err
		}
	}
	return nil
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
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") || len(slots) != clusterPrimaries {
			return errForming
		}
		for _, r := range slots {
			if len(r.Nodes) != 2 {
				return errForming
			}
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

// eventually repeats a function until it succeeds, or ctx has ended.
func eventually(ctx context.Context, step func() error) error {
	for {
		err := step()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(formPoll):
		}
	}
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
	tb.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			tb.Errorf("redistest: close client: %v", err)
		}
	})
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
		ranges, err := c.slots(ctx, s)
		if err != nil {
			continue
		}
		for _, r := range ranges {
			if r.Start <= int(slot) && int(slot) <= r.End && r.Nodes[0].Addr == s.Addr() {
				return s
			}
		}
	}
	return nil
}

// AwaitPrimary waits until a node other than the given one serves a key.
func (c *Cluster) AwaitPrimary(tb testing.TB, key string, not *Server) *Server {
	tb.Helper()
	return awaitPrimary(tb, func() *Server { return c.Primary(key) }, not)
}

func awaitPrimary(tb testing.TB, find func() *Server, not *Server) *Server {
	tb.Helper()
	var primary *Server
	ctx, cancel := context.WithTimeout(context.Background(), formTimeout)
	defer cancel()
	err := eventually(ctx, func() error {
		if primary = find(); primary == nil || primary == not {
			return errForming
		}
		return nil
	})
	if err != nil {
		tb.Fatal("redistest: no other server became the primary")
	}
	return primary
}
