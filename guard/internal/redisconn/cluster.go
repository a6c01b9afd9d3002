package redisconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// clusterNodes keeps what is for one node of a cluster apart from what is for others:
// one that hangs holds up nobody else. go-redis's own pipelines fail in all their parts
// when a node cannot be reached in time.
type clusterNodes struct {
	calls    *combiner // as those of the nodes are to be
	client   *redis.ClusterClient
	renewals *redis.ClusterClient
	known    atomic.Bool // who serves what

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

// do implements sender.
func (n *clusterNodes) do(ctx context.Context, cmd Command) (reply any, err error) {
	c, err := n.combiner(ctx, cmd)
	if err == nil {
		reply, err = c.do(ctx, cmd)
	}
	n.onFailure(ctx, err)
	return reply, err
}

// start implements sender.
func (n *clusterNodes) start(p pending) {
	p.request = watched{p.request, n, p.ctx}
	start := func() {
		c, err := n.combiner(p.ctx, p.request)
		if err != nil {
			p.request.Done(nil, err)
			return
		}
		c.start(p)
	}
	// At first, to find a node takes a trip.
	if n.known.Load() || !n.calls.tasks.Go(start) {
		start()
	}
}

// watched is a request whose failure is heeded.
type watched struct {
	Request

	nodes *clusterNodes
	ctx   context.Context //nolint:containedctx // that of the command
}

func (h watched) Done(reply any, err error) {
	h.nodes.onFailure(h.ctx, err)
	h.Request.Done(reply, err)
}

// combiner sends what is for the node of a command.
func (n *clusterNodes) combiner(ctx context.Context, cmd Command) (*combiner, error) {
	addr, err := n.addr(ctx, cmd.Keys()[0])
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.byAddr[addr]
	if c == nil {
		c = newCombiner(n.calls.pool, n.calls.timeout, n.calls.tasks)
		n.byAddr[addr] = c
	}
	return c, nil
}

// addr tells which node serves a key, as far as is known here.
func (n *clusterNodes) addr(ctx context.Context, key string) (string, error) {
	node, err := n.client.MasterForKey(ctx, key)
	if err != nil {
		return "", err
	}
	n.known.Store(true)
	return node.Options().Addr, nil
}

// part parts commands by the nodes that serve their keys.
func (n *clusterNodes) part(ctx context.Context, cmds []Command) map[string][]int {
	parts := make(map[string][]int)
	for i, c := range cmds {
		// Without an answer, the pipeline will say why.
		addr, _ := n.addr(ctx, c.Keys()[0])
		parts[addr] = append(parts[addr], i)
	}
	return parts
}

// onFailure asks who serves what when a node did not answer: a replica may have taken over.
// By itself, go-redis does so every 10 s. On other than a cluster, n is nil.
func (n *clusterNodes) onFailure(ctx context.Context, err error) {
	var answer redis.Error
	if n != nil && err != nil && !errors.As(err, &answer) {
		n.client.ReloadState(ctx)
		n.renewals.ReloadState(ctx)
	}
}
