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
// commands, one for renewals and messages, and, if replicas are waited for, one whose connections Redis keeps
// meanwhile.
type Client struct {
	user     redis.UniversalClient
	options  Options
	calls    *combiner     // sends callers' commands; on a cluster, nodes has one for each node
	nodes    *clusterNodes // nil = this is no cluster
	renewals link
	acked    link // its client is nil unless replicas are waited for
	primary  *primary
	tasks    *task.Group
	closed   atomic.Bool
}

// Open makes a client that leads where the user's client leads. It sends nothing yet.
func Open(user redis.UniversalClient, o Options) *Client {
	c := &Client{user: user, options: o, tasks: task.NewGroup()}
	c.primary = primaryOf(user)
	calls := c.link(o.newClient(user, 0, c.primary))
	c.renewals = c.link(o.newClient(user, renewalsIdle, c.primary))
	c.calls = newCombiner(calls, c.tasks)
	c.nodes = newClusterNodes(calls, c.renewals.client, c.tasks)
	if o.Acked {
		c.acked = c.link(o.newClient(user, 0, c.primary))
	}
	return c
}

// link is a way to the server.
func (c *Client) link(client redis.UniversalClient) link {
	l := link{client: client, timeout: c.options.AttemptTimeout}
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
		if c.acked.client != nil {
			err = errors.Join(err, c.acked.client.Close())
		}
	}
	<-c.tasks.Close()
	return err
}

// afterwards gives what is still sent when the Client is closed a client of its own.
func (c *Client) afterwards(send func(l *link) (any, error)) (any, error) {
	l := c.link(c.options.newClient(c.user, 0, nil))
	defer func() { _ = l.client.Close() }()
	return send(&l)
}

// Do sends a command and waits for its reply, no longer than to the deadline of ctx. When ctx is canceled, a
// command that was not sent yet is not sent; one that was is waited for.
func (c *Client) Do(ctx context.Context, cmd Command) (any, error) {
	if c.closed.Load() {
		return c.afterwards(func(l *link) (any, error) { return l.send(ctx, cmd) })
	}
	c.primary.check(ctx)
	calls := c.calls
	if c.nodes != nil {
		var err error
		if calls, err = c.nodes.combiner(ctx, cmd); err != nil {
			return nil, err
		}
	}
	return calls.do(ctx, cmd)
}

// DoAcked is Do for a command that replicas are to know of. The error is an AckError,
// beside the reply, if too few do.
func (c *Client) DoAcked(ctx context.Context, cmd Command, w AckWait) (any, error) {
	if c.closed.Load() {
		return c.Do(ctx, cmd)
	}
	c.primary.check(ctx)
	reply, err := w.run(ctx, c.acked.client, cmd)
	if _, lags := err.(AckError); lags { //nolint:errorlint // it comes bare
		return reply, err
	}
	return reply, c.acked.check(ctx, err)
}

// Together sends commands in one write, as callers' commands go out under load, and waits for
// all replies. It is there for tests.
func (c *Client) Together(ctx context.Context, cmds []Command) []Reply {
	answers := make([]chan answer, len(cmds))
	c.calls.mu.Lock()
	c.calls.active++
	for i, cmd := range cmds {
		answers[i] = make(chan answer, 1)
		c.calls.queue = append(c.calls.queue, pending{ctx: ctx, command: cmd, answers: answers[i]})
	}
	c.calls.mu.Unlock()
	c.calls.drain() //nolint:contextcheck // each command has its own
	replies := make([]Reply, len(cmds))
	for i, ch := range answers {
		a := <-ch
		replies[i] = Reply{a.reply, a.err}
	}
	return replies
}

// Call sends a command that is no script.
func (c *Client) Call(ctx context.Context, words ...any) (any, error) {
	if c.closed.Load() {
		return c.afterwards(func(l *link) (any, error) { return l.call(ctx, words) })
	}
	c.primary.check(ctx)
	return c.renewals.call(ctx, words)
}

func (l *link) call(ctx context.Context, words []any) (any, error) {
	cmd := noRetryCmd{redis.NewCmd(ctx, words...)}
	_ = l.client.Process(ctx, cmd)
	return l.result(ctx, cmd)
}

// Publish sends a message.
func (c *Client) Publish(ctx context.Context, channel, message string) error {
	return c.renewals.client.Publish(ctx, channel, message).Err()
}

// Subscribe listens to a channel.
func (c *Client) Subscribe(ctx context.Context, channel string) *redis.PubSub {
	return c.renewals.client.Subscribe(ctx, channel)
}

// NodeFailed is for when something did not get through: on a cluster, another node may be
// the one to ask now.
func (c *Client) NodeFailed(ctx context.Context, err error) { c.nodes.onFailure(ctx, err) }

// Server names the server of a Redis key. Servers fail independently: the nodes of a cluster, as far as they
// are known here.
func (c *Client) Server(ctx context.Context, key string) string {
	if c.nodes == nil || !c.nodes.known.Load() {
		return ""
	}
	addr, _ := c.nodes.addr(ctx, key)
	return addr
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
			l := c.renewals
			if addr != "" {
				l.server, l.failed = func() string { return addr }, c.nodes.onFailure
			}
			c.pipe(ctx, &l, cmds, part, replies)
		})
	}
	pipelines.Wait()
	return replies
}

// pipe sends some of the commands: those of one script share calls of it, but on a cluster. What Redis did not do
// as part of a call is sent by itself.
func (c *Client) pipe(ctx context.Context, l *link, cmds []Command, which []int, replies []Reply) {
	for apart := c.calls.unbatched.Load(); len(which) > 0; apart = true {
		calls, parts := callsOf(cmds, which, apart)
		which = nil
		for n, cmd := range l.exchange(ctx, calls) {
			part := parts[n]
			if len(part) == 1 {
				replies[part[0]].Value, replies[part[0]].Err = l.resultOf(ctx, cmds[part[0]], cmd)
				continue
			}
			reply, err := l.result(ctx, cmd)
			if ofOtherSlots(err) {
				c.calls.unbatched.Store(true)
			}
			calls[n].unpack(reply, err,
				func(i int, reply any, err error) { replies[part[i]] = Reply{reply, err} },
				func(i int) { which = append(which, part[i]) })
		}
	}
}

// callsOf makes calls of some commands, of each by itself if they are to be apart. It returns their indexes, too.
func callsOf(cmds []Command, which []int, apart bool) (calls []call, parts [][]int) {
	open := make(map[*Script]int) // by which call more may go
	for _, i := range which {
		s := cmds[i].Script()
		alone := apart || !s.many || cmds[i].Alone()
		at, is := open[s]
		if alone || !is || len(calls[at]) == batchMost {
			at = len(calls)
			calls, parts = append(calls, nil), append(parts, nil)
		}
		if !alone {
			open[s] = at
		}
		calls[at], parts[at] = append(calls[at], cmds[i]), append(parts[at], i)
	}
	return calls, parts
}

// Reply is the answer to one command of a pipeline.
type Reply struct {
	Value any
	Err   error
}
