package redisconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// clusterNodes keeps what is for one node of a cluster apart from what is for others:
// one that hangs holds up nobody else. go-redis's own pipelines fail in all their parts
// when a node cannot be reached in time.
type clusterNodes struct {
	calls    *combiner // as those of the nodes are to be
	client   *redis.ClusterClient
	renewals *redis.ClusterClient
	known    atomic.Bool // which node serves which slot

	mu     sync.Mutex
	byAddr map[string]*combiner // by address
}

// newClusterNodes is nil on other than a cluster.
func newClusterNodes(calls *combiner, renewals redis.UniversalClient) *clusterNodes {
	if calls.pool.shared == nil {
		return nil
	}
	return &clusterNodes{
		calls: calls, client: calls.pool.shared.client.(*redis.ClusterClient),
		renewals: renewals.(*redis.ClusterClient), byAddr: make(map[string]*combiner),
	}
}

// do sends a command to the node that serves its keys.
func (n *clusterNodes) do(ctx context.Context, cmd Command) (any, error) {
	var c *combiner
	var err error
	if n.known.Load() {
		c, err = n.combiner(ctx, cmd)
	} else { // at first, to find a node takes a round trip
		c, err = task.DoInTime(ctx, n.calls.tasks, func(ctx context.Context) (*combiner, error) { return n.combiner(ctx, cmd) })
	}
	if err != nil {
		return nil, err
	}
	return c.do(ctx, cmd)
}

// combiner sends what is for the node of a command.
func (n *clusterNodes) combiner(ctx context.Context, cmd Command) (*combiner, error) {
	addr, err := n.addr(ctx, cmd.Keys()[0])
	if err != nil {
		n.onFailure(ctx, err)
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.byAddr[addr]
	if c == nil {
		c = newCombiner(n.calls.pool, n.calls.timeout, n.calls.tasks, n)
		n.byAddr[addr] = c
	}
	return c, nil
}

// addr is the node that serves a key, as far as is known here.
func (n *clusterNodes) addr(ctx context.Context, key string) (string, error) {
	node, err := n.client.MasterForKey(ctx, key)
	if err != nil {
		return "", err
	}
	n.known.Store(true)
	return node.Options().Addr, nil
}

// part parts commands by the nodes that serve their keys. On other than a cluster, n is nil.
func (n *clusterNodes) part(ctx context.Context, cmds []Command) map[string][]int {
	parts := make(map[string][]int)
	for i, c := range cmds {
		if n == nil {
			parts[""] = append(parts[""], i)
			continue
		}
		// Without an answer, the pipeline will say why.
		addr, _ := n.addr(ctx, c.Keys()[0])
		parts[addr] = append(parts[addr], i)
	}
	return parts
}

// onFailure asks which node serves which slot when a node did not answer: a replica may have taken over.
// By itself, go-redis does so every 10 s. On other than a cluster, n is nil.
func (n *clusterNodes) onFailure(ctx context.Context, err error) {
	var answer redis.Error
	if n != nil && err != nil && !errors.As(err, &answer) {
		n.client.ReloadState(ctx)
		n.renewals.ReloadState(ctx)
	}
}
