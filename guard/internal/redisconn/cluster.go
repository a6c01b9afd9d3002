package redisconn

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// clusterNodes keeps the commands for one node of a cluster apart from those for others, so that a node that
// hangs holds up no other. go-redis's own pipelines fail in all their parts when a node cannot be reached in
// time.
type clusterNodes struct {
	calls    link // of callers' commands
	tasks    *task.Group
	renewals *redis.ClusterClient
	known    atomic.Bool // which node serves which slot

	mu     sync.Mutex
	byAddr map[string]*combiner
}

// newClusterNodes is nil if there is no cluster.
func newClusterNodes(l link, renewals redis.UniversalClient, tasks *task.Group) *clusterNodes {
	cluster, ok := renewals.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	return &clusterNodes{calls: l, tasks: tasks, renewals: cluster, byAddr: make(map[string]*combiner)}
}

// combiner returns the combiner of the node that serves a command.
func (n *clusterNodes) combiner(ctx context.Context, cmd Command) *combiner {
	addr := n.addr(ctx, cmd.Keys[0])
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.byAddr[addr]
	if c == nil {
		c = &combiner{link: n.link(n.calls, addr), tasks: n.tasks}
		n.byAddr[addr] = c
	}
	return c
}

// link returns a way to one node.
func (n *clusterNodes) link(l link, addr string) link {
	if addr != "" {
		l.server, l.failed = func() string { return addr }, n.onFailure
	}
	return l
}

// addr returns the node that serves a key, or "" if no node says which: then the command will say why.
func (n *clusterNodes) addr(ctx context.Context, key string) string {
	node, err := n.calls.client.(*redis.ClusterClient).MasterForKey(ctx, key)
	if err != nil {
		return ""
	}
	n.known.Store(true)
	return node.Options().Addr
}

// part is the commands for one node, and their indexes.
type part struct {
	cmds []*Command
	of   []int
}

// part parts commands by the nodes that serve their keys. Without a cluster, n is nil, and there is one part.
func (n *clusterNodes) part(ctx context.Context, cmds []Command) map[string]part {
	parts := make(map[string]part)
	for i := range cmds {
		addr := ""
		if n != nil {
			addr = n.addr(ctx, cmds[i].Keys[0])
		}
		p := parts[addr]
		parts[addr] = part{append(p.cmds, &cmds[i]), append(p.of, i)}
	}
	return parts
}

// onFailure asks which node serves which slot when a node did not answer: a replica may have taken over. By
// itself, go-redis does so once a minute. Without a cluster, n is nil.
func (n *clusterNodes) onFailure(ctx context.Context, _ error) {
	if n != nil {
		n.calls.client.(*redis.ClusterClient).ReloadState(ctx)
		n.renewals.ReloadState(ctx)
	}
}
