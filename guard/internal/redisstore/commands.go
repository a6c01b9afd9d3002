package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// keys returns the Redis keys of a lock: slices of one string. The lock is the beginning of the queue.
func (s *Store) keys(key string) []string {
	base := s.prefix + ":{" + escape(key) + "}"
	all := base + ":queue" + base + ":ended" + base + ":seen" + base + ":holders"
	queue := len(base) + len(":queue")
	ended := queue + len(base) + len(":ended")
	seen := ended + len(base) + len(":seen")
	return []string{all[:len(base)], all[:queue], all[queue:ended], all[ended:seen], all[seen:]}
}

// millis writes a time as the scripts take it.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// acquireCommand is a claim for the script acquire. It shares a call if a look at the lock is enough for it.
func (s *Store) acquireCommand(c *guardstore.Claim, keys []string) redisconn.Command {
	wants := "-" // the claim does not wait
	if c.Queue {
		wants = strconv.FormatUint(c.Ticket, 10)
		if c.Unsubscribed {
			wants += "-"
		}
	}
	plain := c.Limit == guardstore.Exclusive && c.Ticket == 0 && c.FenceAbove == 0
	if !plain {
		wants += " " + strconv.FormatUint(c.FenceAbove, 10)
	}
	cmd := redisconn.Command{
		Script: acquireScript, Keys: keys, Shared: s.shared, Args: []string{c.Owner, millis(c.TTL), c.Metadata, wants},
		Alone: !plain || c.Once != nil, Acks: s.replicas,
	}
	if c.Once != nil {
		cmd.Keys = append(keys, s.recordKey(c.Key))
		cmd.Args = onceArgs(cmd.Args, c.Once)
	}
	return cmd
}

// releaseCommand is a release for the script release. It shares a call if it only has to delete the lock.
func (s *Store) releaseCommand(ctx context.Context, r *guardstore.Release) redisconn.Command {
	keys, how := s.keys(r.Key), ""
	careful := s.clock(ctx, r.Key, keys[0]).mayBeBelow(r.Fence, s.now())
	plain := r.Limit == guardstore.Exclusive && !careful && !r.Tombstone && r.MinHold == 0 && r.Record == nil
	if !plain {
		mark := " -"
		if r.Tombstone {
			mark = " t"
		}
		how = strconv.FormatUint(r.Fence, 10) + " " + millis(r.MinHold) + mark
	}
	cmd := redisconn.Command{Script: releaseScript, Keys: keys, Shared: s.shared, Args: []string{r.Owner, how}, Alone: !plain}
	if r.Record != nil {
		cmd.Keys = append(keys, s.recordKey(r.Key))
		cmd.Args = onceArgs(append(cmd.Args, stateWords[r.Record.State]), &r.Record.Once)
		cmd.Args = append(cmd.Args, r.Record.Holder, string(r.Record.Result))
		cmd.Acks = s.replicas // a result that no replica knows of is not kept
	}
	return cmd
}

// renewCommand is a grant for the script renew. With one key, a renewal gets through while its slot moves.
func (s *Store) renewCommand(g *guardstore.Grant) redisconn.Command {
	all := s.keys(g.Key)
	cmd := redisconn.Command{
		Script: renewScript, Keys: all[:1], Args: []string{g.Owner, strconv.FormatUint(g.Fence, 10), millis(g.TTL), strconv.Itoa(g.Depth), g.Metadata},
	}
	switch {
	case g.Keep > 0:
		cmd.Keys, cmd.Alone = []string{all[0], s.recordKey(g.Key)}, true
		cmd.Args = append(cmd.Args, millis(g.Keep))
	case g.Limit != guardstore.Exclusive:
		cmd.Keys, cmd.Alone = []string{all[0], all[4]}, true
	}
	return cmd
}
