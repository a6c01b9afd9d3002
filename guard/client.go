package guard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// connOptions are what openClient needs to know.
type connOptions struct {
	timeout   time.Duration // for what goes over a connection once
	pipelines int           // pipelines at a time, at most
	acked     bool          // DoAcked is used
}

// connClient carries commands to one Redis: standalone, Sentinel or Cluster. It goes over
// connections of its own, on which deadlines hold and which user code cannot exhaust.
// Callers' commands and pipelines share none: when the network goes silent, each connection
// that callers left idle would cost a pipeline one more try.
type connClient struct {
	user      redis.UniversalClient
	dedicated redis.UniversalClient // for pipelines and messages
	acked     redis.UniversalClient // for doAcked
	calls     *combiner             // on a client of its own
	nodes     *clusterNodes         // makes the calls, on a cluster

	bounds  bounds
	common  *suspicion
	tasks   *task.Group
	closing chan struct{} // ends dials
	closed  atomic.Bool   // all are; what is still sent goes over connections of its own
}

// openClient makes a client with the options of another, which it does not use. It sends
// nothing yet.
func openClient(user redis.UniversalClient, o connOptions) *connClient {
	tasks, closing := task.NewGroup(), make(chan struct{})
	b := bounds{o.timeout, closing}
	common := newSuspicion(user, closing, tasks)
	// There is room for a probe beside the pipelines. Few connections are kept idle: a
	// network that forgets connections forgets those, too.
	pool := poolSize{most: o.pipelines + 1, idle: 2}
	c := &connClient{
		user: user, dedicated: privateClient(user, b, &pool, common),
		calls:  newCombiner(newLanes(user, b, common), o.timeout, tasks),
		bounds: b, common: common, tasks: tasks, closing: closing,
	}
	c.nodes = newClusterNodes(c.calls, c.dedicated)
	if o.acked {
		// Each command has a connection of its own, of as many as the user's pool may have.
		c.acked = privateClient(user, b, nil, common)
	}
	return c
}

// close closes the connections, which also ends the calls on them.
func (c *connClient) close() error {
	var err error
	if !c.closed.Swap(true) {
		close(c.closing)
		err = errors.Join(c.dedicated.Close(), c.calls.lanes.close())
		if c.acked != nil {
			err = errors.Join(err, c.acked.Close())
		}
	}
	<-c.tasks.Close()
	return err
}

// afterwards is for what is still sent when all is closed: a client for one command. The
// user's own has other timeouts, or none.
func (c *connClient) afterwards() redis.UniversalClient {
	return privateClient(c.user, bounds{timeout: c.bounds.timeout}, &lanePool, &suspicion{})
}

// do sends a command and waits.
func (c *connClient) do(ctx context.Context, cmd command) (any, error) {
	if c.closed.Load() {
		client := c.afterwards()
		defer func() { _ = client.Close() }()
		return run(ctx, cmd, client)
	}
	return c.courier().do(ctx, cmd)
}

// start sends a request for a caller that leaves at the end of leave, or never if that is
// nil: then it is done before start returns.
func (c *connClient) start(ctx, leave context.Context, r request) {
	if leave == nil || c.closed.Load() {
		r.done(c.do(ctx, r))
		return
	}
	c.courier().start(parcel{ctx: ctx, leave: leave, request: r})
}

// startAcked is start for a request after which replicas are to know of it. Their number is
// noted in acks.
func (c *connClient) startAcked(ctx, leave context.Context, r request, w ackWait) {
	if c.closed.Load() {
		r.done(c.do(ctx, r))
		return
	}
	call := func() { r.done(w.run(ctx, c.acked, r)) }
	if leave == nil || !c.tasks.Go(call) {
		call()
	}
}

// courier is for callers' commands.
func (c *connClient) courier() courier {
	if c.nodes != nil {
		return c.nodes
	}
	return c.calls
}

// call sends a command that is no script.
func (c *connClient) call(ctx context.Context, words ...any) (any, error) {
	client := c.dedicated
	if c.closed.Load() {
		client = c.afterwards()
		defer func() { _ = client.Close() }()
	}
	return client.Do(ctx, words...).Result()
}

// publish sends a message.
func (c *connClient) publish(ctx context.Context, channel, message string) error {
	return c.dedicated.Publish(ctx, channel, message).Err()
}

// subscribe listens to a channel.
func (c *connClient) subscribe(ctx context.Context, channel string) *redis.PubSub {
	return c.dedicated.Subscribe(ctx, channel)
}

// nodeFailed is for when something did not get through: on a cluster, another node may be
// the one to ask now.
func (c *connClient) nodeFailed(ctx context.Context, err error) { c.nodes.heed(ctx, err) }

// server tells apart, by a key, what fails apart: the nodes of a cluster, as far as they are
// known here.
func (c *connClient) server(ctx context.Context, key string) string {
	if c.nodes == nil || !c.nodes.known.Load() {
		return ""
	}
	addr, _ := c.nodes.addr(ctx, key)
	return addr
}

// singleAddress says whether there is one server behind an address, not a cluster.
func (c *connClient) singleAddress() bool { return c.nodes == nil }

// pipeline sends commands in one write, or on a cluster in one for each node. Replies are
// in the order of the commands.
func (c *connClient) pipeline(ctx context.Context, cmds []command) []pipelineReply {
	replies := make([]pipelineReply, len(cmds))
	if c.nodes == nil || c.closed.Load() {
		all := make([]int, len(cmds))
		for i := range all {
			all[i] = i
		}
		c.pipe(ctx, cmds, all, replies)
		return replies
	}
	var pipelines sync.WaitGroup
	for _, part := range c.nodes.part(ctx, cmds) {
		pipelines.Go(func() { c.pipe(ctx, cmds, part, replies) })
	}
	pipelines.Wait()
	return replies
}

// pipelineReply is the answer to one command of a pipeline.
type pipelineReply struct {
	value any
	err   error
}

// pipe sends some of the commands, and what Redis did not know by name once more.
func (c *connClient) pipe(ctx context.Context, cmds []command, which []int, replies []pipelineReply) {
	c.exec(ctx, cmds, which, replies, false)
	var unknown []int
	for _, i := range which {
		if isNoScript(replies[i].err) {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		c.exec(ctx, cmds, unknown, replies, true)
	}
	for _, i := range which {
		c.nodes.heed(ctx, replies[i].err)
	}
}

func (c *connClient) exec(ctx context.Context, cmds []command, which []int, replies []pipelineReply, inFull bool) {
	pipe := c.dedicated.Pipeline()
	sent := make([]once, len(which))
	for n, i := range which {
		sent[n] = newOnce(ctx, cmds[i], inFull)
		_ = pipe.Process(ctx, sent[n]) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	for n, i := range which {
		replies[i].value, replies[i].err = sent[n].Result()
	}
}
