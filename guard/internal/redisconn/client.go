package redisconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// Options are what Open needs to know.
type Options struct {
	AttemptTimeout time.Duration // for what goes over a connection once
	Pipelines      int           // pipelines at a time, at most
	Acked          bool          // DoAcked is used
}

// Client carries commands to one Redis: standalone, Sentinel or Cluster. It goes over
// connections of its own, on which deadlines hold and which user code cannot exhaust.
// Callers' commands and pipelines share none: when the network goes silent, each connection
// that callers left idle would cost a pipeline one more try.
type Client struct {
	user      redis.UniversalClient
	dedicated redis.UniversalClient // for pipelines and messages
	acked     redis.UniversalClient // for doAcked
	calls     *combiner             // on clients of its own
	nodes     *clusterNodes         // makes the calls, on a cluster

	bounds  bounds
	tasks   *task.Group
	closing chan struct{} // ends dials
	closed  atomic.Bool   // all are; what is still sent goes over connections of its own
}

// Open makes a client with the options of another, which it does not use. It sends
// nothing yet.
func Open(user redis.UniversalClient, o Options) *Client {
	tasks, closing := task.NewGroup(), make(chan struct{})
	b := bounds{o.AttemptTimeout, closing}
	server := serverOf(user, closing, tasks)
	// There is room for a probe beside the pipelines. Few connections are kept idle: a
	// network that forgets connections forgets those, too.
	pool := poolSize{most: o.Pipelines + 1, idle: 2}
	c := &Client{
		user: user, dedicated: dedicatedClient(user, b, &pool, server),
		calls:  newCombiner(newPool(user, b, server), o.AttemptTimeout, tasks, nil),
		bounds: b, tasks: tasks, closing: closing,
	}
	c.nodes = newClusterNodes(c.calls, c.dedicated)
	if o.Acked {
		// Each command has a connection of its own, of as many as the user's pool may have.
		c.acked = dedicatedClient(user, b, nil, server)
	}
	return c
}

// Close closes the connections, which also ends the calls on them.
func (c *Client) Close() error {
	var err error
	if !c.closed.Swap(true) {
		close(c.closing)
		err = errors.Join(c.dedicated.Close(), c.calls.pool.close())
		if c.acked != nil {
			err = errors.Join(err, c.acked.Close())
		}
	}
	<-c.tasks.Close()
	return err
}

// afterwards is for what is still sent when all is closed: a client for one command. The
// user's own has other timeouts, or none.
func (c *Client) afterwards() (client redis.UniversalClient, end func()) {
	closing := make(chan struct{})
	client = dedicatedClient(c.user, bounds{c.bounds.timeout, closing}, &oneConn, newServer())
	return client, func() {
		close(closing)
		_ = client.Close()
	}
}

// Do sends a command and waits for its reply, to the end of ctx.
func (c *Client) Do(ctx context.Context, cmd Command) (any, error) {
	switch {
	case c.closed.Load():
		client, end := c.afterwards()
		defer end()
		return roundTrip(c.calls.detached(ctx), cmd, client)
	case c.nodes != nil:
		return c.nodes.do(ctx, cmd)
	}
	return c.calls.do(ctx, cmd)
}

// DoAcked is Do for a command that replicas are to know of. The error is an AckError,
// beside the reply, if too few do.
func (c *Client) DoAcked(ctx context.Context, cmd Command, w AckWait) (any, error) {
	if c.closed.Load() {
		return c.Do(ctx, cmd)
	}
	return task.DoInTime(ctx, c.tasks, func(ctx context.Context) (any, error) {
		return w.run(c.calls.detached(ctx), c.acked, cmd)
	})
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
	c.calls.drain(nil) //nolint:contextcheck // each command has its own
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
		client, end := c.afterwards()
		defer end()
		return client.Do(c.calls.detached(ctx), words...).Result()
	}
	return task.DoInTime(ctx, c.tasks, func(ctx context.Context) (any, error) {
		return c.dedicated.Do(c.calls.detached(ctx), words...).Result()
	})
}

// Publish sends a message.
func (c *Client) Publish(ctx context.Context, channel, message string) error {
	return c.dedicated.Publish(ctx, channel, message).Err()
}

// Subscribe listens to a channel.
func (c *Client) Subscribe(ctx context.Context, channel string) *redis.PubSub {
	return c.dedicated.Subscribe(ctx, channel)
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
	replies := make([]Reply, len(cmds))
	var pipelines sync.WaitGroup
	for _, part := range c.nodes.part(ctx, cmds) {
		pipelines.Go(func() {
			got, err := task.DoInTime(ctx, c.tasks, func(ctx context.Context) ([]Reply, error) {
				return c.pipe(c.calls.detached(ctx), cmds, part), nil
			})
			for n, i := range part {
				if replies[i].Err = err; err == nil {
					replies[i] = got[n]
				}
			}
		})
	}
	pipelines.Wait()
	return replies
}

// Reply is the answer to one command of a pipeline.
type Reply struct {
	Value any
	Err   error
}

// pipe sends some of the commands, and what Redis did not know by name once more.
func (c *Client) pipe(ctx context.Context, cmds []Command, which []int) []Reply {
	replies := exec(ctx, c.dedicated, cmds, which, false)
	var unknown, at []int
	for n, i := range which {
		if isNoScript(replies[n].Err) {
			unknown, at = append(unknown, i), append(at, n)
		}
	}
	if len(unknown) > 0 {
		for n, r := range exec(ctx, c.dedicated, cmds, unknown, true) {
			replies[at[n]] = r
		}
	}
	for _, r := range replies {
		c.nodes.onFailure(ctx, r.Err)
	}
	return replies
}

func exec(ctx context.Context, client redis.UniversalClient, cmds []Command, which []int, inFull bool) []Reply {
	pipe := client.Pipeline()
	sent := make([]noRetryCmd, len(which))
	for n, i := range which {
		sent[n] = newCmd(ctx, cmds[i], inFull)
		_ = pipe.Process(ctx, sent[n]) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	replies := make([]Reply, len(which))
	for n := range sent {
		replies[n].Value, replies[n].Err = sent[n].Result()
	}
	return replies
}
