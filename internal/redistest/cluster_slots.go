package redistest

import (
	"context"
	"net"
	"testing"
	"time"
)

// Migration is a slot on its way from one primary to another. Until it is
// finished, the old one serves the keys that it still has, and sends clients to
// the new one for all others (ASK); a command with keys on both fails (TRYAGAIN).
type Migration struct {
	cluster  *Cluster
	slot     int
	From, To *Server
}

// Migrate begins to move the slot of a key to another primary. No key moves yet.
func (c *Cluster) Migrate(tb testing.TB, key string) *Migration {
	tb.Helper()
	ctx := context.Background()
	m := &Migration{cluster: c, From: c.Primary(key)}
	slot, err := c.admin[m.From].ClusterKeySlot(ctx, key).Result()
	if err != nil {
		tb.Fatalf("redistest: migrate: %v", err)
	}
	m.slot = int(slot)
	for _, s := range c.primaries(tb, m.From) {
		if s != m.From {
			m.To = s
		}
	}
	m.set(tb, m.To, "importing", m.From)
	m.set(tb, m.From, "migrating", m.To)
	return m
}

// primaries are the primaries, as a node sees them.
func (c *Cluster) primaries(tb testing.TB, s *Server) []*Server {
	tb.Helper()
	ranges, err := c.slots(context.Background(), s)
	if err != nil {
		tb.Fatalf("redistest: cluster slots: %v", err)
	}
	var primaries []*Server
	for _, r := range ranges {
		for _, node := range c.nodes {
			if node.Addr() == r.Nodes[0].Addr {
				primaries = append(primaries, node)
			}
		}
	}
	return primaries
}

func (m *Migration) set(tb testing.TB, at *Server, state string, node *Server) {
	tb.Helper()
	ctx := context.Background()
	id, err := m.cluster.admin[node].ClusterMyID(ctx).Result()
	if err == nil {
		err = m.cluster.admin[at].Do(ctx, "cluster", "setslot", m.slot, state, id).Err()
	}
	if err != nil {
		tb.Fatalf("redistest: setslot %d %s: %v", m.slot, state, err)
	}
}

// Move moves keys, or with none all keys that the slot has left, and returns how
// many.
func (m *Migration) Move(tb testing.TB, keys ...string) int {
	tb.Helper()
	ctx := context.Background()
	from := m.cluster.admin[m.From]
	var err error
	if len(keys) == 0 {
		keys, err = from.ClusterGetKeysInSlot(ctx, m.slot, 1000).Result()
	}
	if err == nil && len(keys) > 0 {
		host, port, _ := net.SplitHostPort(m.To.Addr())
		args := []any{"migrate", host, port, "", 0, time.Second.Milliseconds(), "keys"}
		for _, key := range keys {
			args = append(args, key)
		}
		err = from.Do(ctx, args...).Err()
	}
	if err != nil {
		tb.Fatalf("redistest: migrate keys: %v", err)
	}
	return len(keys)
}

// Finish moves the other keys and hands the slot over. Nodes that do not hear of it
// at once answer with MOVED.
func (m *Migration) Finish(tb testing.TB) {
	tb.Helper()
	for m.Move(tb) > 0 {
		continue // until no key is left
	}
	m.set(tb, m.To, "node", m.To)
	m.set(tb, m.From, "node", m.To)
}
