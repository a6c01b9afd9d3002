package redisconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// Client carries commands to one Redis: standalone, Sentinel or Cluster. It has clients of go-redis of its
// own, so that user code cannot exhaust their connections, and deadlines hold on them: one for callers'
// commands, one for renewals and messages.
type Client struct {
	user     redis.UniversalClient
	options  Options
	calls    *combiner     // sends callers' commands; on a cluster, nodes has one for each node
	nodes    *clusterNodes // nil = this is no cluster
	renewals link
	primary  *primary
	tasks    *task.Group
	apart    atomic.Bool // see link
	closed   atomic.Bool
}

// Open makes a client that leads where the user's client leads. It sends nothing yet.
func Open(user redis.UniversalClient, o Options) *Client {
	c := &Client{user: user, options: o, tasks: task.NewGroup(), primary: primaryOf(user)}
	c.calls = &combiner{link: c.link(o.newClient(user, 0, c.primary)), tasks: c.tasks}
	c.renewals = c.link(o.newClient(user, renewalsIdle, c.primary))
	c.nodes = newClusterNodes(c.calls.link, c.renewals.client, c.tasks)
	c.apart.Store(c.nodes != nil)
	return c
}

// link is a way to the server.
func (c *Client) link(client redis.UniversalClient) link {
	l := link{client: client, timeout: c.options.AttemptTimeout, apart: &c.apart}
	single, ok := client.(*redis.Client)
	switch {
	case !ok:
		l.server = func() string { return "cluster" }
	case c.primary != nil:
		l.server = c.primary.server
	case single.Options().TLSConfig != nil:
		l.server = func() string { return single.Options().Addr + " (TLS)" }
	default:
		l.server = func() string { return single.Options().Addr }
	}
	return l
}

// Close closes the connections, which also ends the calls on them.
func (c *Client) Close() error {
	var err error
	if !c.closed.Swap(true) {
		err = errors.Join(c.calls.client.Close(), c.renewals.client.Close())
	}
	<-c.tasks.Close()
	return err
}

// afterwards sends with a client of its own, after Close.
func (c *Client) afterwards(send func(l *link) (any, error)) (any, error) {
	l := c.link(c.options.newClient(c.user, 0, nil))
	defer func() { _ = l.client.Close() }()
	return send(&l)
}

// Do sends a command and waits for its reply until the deadline of ctx. If ctx is canceled before the command is sent, it
// is not sent. Later, Do still waits for the reply. If too few replicas know of it, Do returns an AckError next to the reply.
func (c *Client) Do(ctx context.Context, cmd Command) (any, error) {
	if c.closed.Load() {
		return c.afterwards(func(l *link) (any, error) { return l.send(ctx, cmd) })
	}
	c.primary.check(ctx)
	calls := c.calls
	switch {
	case cmd.Acks.N > 0:
		return calls.sendAcked(ctx, cmd)
	case c.nodes != nil:
		calls = c.nodes.combiner(ctx, cmd)
	}
	return calls.do(ctx, cmd)
}

// Call sends a command that is no script.
func (c *Client) Call(ctx context.Context, words ...any) (any, error) {
	if c.closed.Load() {
		return c.afterwards(func(l *link) (any, error) { return l.call(ctx, words) })
	}
	c.primary.check(ctx)
	return c.renewals.call(ctx, words)
}

// Publish sends a message.
func (c *Client) Publish(ctx context.Context, channel, message string) error {
	return c.renewals.client.Publish(ctx, channel, message).Err()
}

// Subscribe listens to a channel.
func (c *Client) Subscribe(ctx context.Context, channel string) *redis.PubSub {
	return c.renewals.client.Subscribe(ctx, channel)
}

// NodeFailed reports a command or a subscription that did not get through: on a cluster, another node may serve its key now.
func (c *Client) NodeFailed(ctx context.Context, err error) { c.nodes.onFailure(ctx, err) }

// Server names the server of a Redis key. Servers fail independently: the nodes of a cluster, as far as they
// are known here.
func (c *Client) Server(ctx context.Context, key string) string {
	if c.nodes == nil || !c.nodes.known.Load() {
		return ""
	}
	return c.nodes.addr(ctx, key)
}

// SingleAddress says whether the client leads to one server at a time, not to a cluster.
func (c *Client) SingleAddress() bool { return c.nodes == nil }

// Pipeline sends commands in one write, or on a cluster in one for each node: the replies of one
// do not wait for those of another. Replies are in the order of the commands.
func (c *Client) Pipeline(ctx context.Context, cmds []Command) []Reply {
	c.primary.check(ctx)
	replies := make([]Reply, len(cmds))
	var pipelines sync.WaitGroup
	for addr, part := range c.nodes.part(ctx, cmds) {
		pipelines.Go(func() {
			l := c.nodes.link(c.renewals, addr)
			l.sendAll(ctx, part.cmds, func(i int, r Reply) { replies[part.of[i]] = r })
		})
	}
	pipelines.Wait()
	return replies
}
