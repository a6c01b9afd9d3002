package redistest

import (
	"context"
	"slices"
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
	must(tb, "find a slot", err)
	m.slot = int(slot)
	ranges, err := c.slots(ctx, m.From)
	must(tb, "cluster slots", err)
	for _, r := range ranges {
		if i := slices.IndexFunc(c.nodes, func(s *Server) bool { return s.Addr() == r.Nodes[0].Addr }); c.nodes[i] != m.From {
			m.To = c.nodes[i]
		}
	}
	m.set(tb, m.To, "importing", m.From)
	m.set(tb, m.From, "migrating", m.To)
	return m
}

func (m *Migration) set(tb testing.TB, at *Server, state string, node *Server) {
	tb.Helper()
	ctx := context.Background()
	id, err := m.cluster.admin[node].ClusterMyID(ctx).Result()
	if err == nil {
		err = m.cluster.admin[at].Do(ctx, "cluster", "setslot", m.slot, state, id).Err()
	}
	must(tb, "setslot "+state, err)
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
		args := []any{"migrate", "127.0.0.1", m.To.port, "", 0, time.Second.Milliseconds(), "keys"}
		for _, key := range keys {
			args = append(args, key)
		}
		err = from.Do(ctx, args...).Err()
	}
	must(tb, "migrate keys", err)
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
