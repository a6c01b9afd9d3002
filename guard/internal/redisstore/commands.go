package redisstore

import (
	"strconv"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// acquireCommand, releaseCommand and renewCommand are each in one piece of memory. Their Args are in the order of
// the scripts.
type acquireCommand struct {
	guardstore.Claim

	store *Store
	names [5]string
	ttl   int64
}

func (*acquireCommand) Script() *redisconn.Script { return acquireScript }

func (a *acquireCommand) Keys() []string {
	if a.Once != nil {
		return append(a.names[:], a.store.recordKey(a.Key))
	}
	return a.names[:]
}

func (a *acquireCommand) Shared(words []any) []any { return append(words, &a.store.channels) }

func (a *acquireCommand) Args(words []any) []any {
	words = append(words, &a.Owner, &a.ttl, &a.Metadata, a.wants())
	if a.Once != nil {
		words = onceArgs(words, a.Once)
	}
	return words
}

// wants is short for most: whether the claim waits, and has a subscription. Else it also has the place in the queue, and
// the number that the fence must be above.
func (a *acquireCommand) wants() string {
	wants := "-"
	if a.Queue {
		wants = strconv.FormatUint(a.Ticket, 10)
		if a.Unsubscribed {
			wants += "-"
		}
	}
	if a.isPlain() {
		return wants
	}
	return wants + " " + strconv.FormatUint(a.FenceAbove, 10)
}

// isPlain says that the claim takes the lock if it is free.
func (a *acquireCommand) isPlain() bool {
	return a.Limit == guardstore.Exclusive && a.Ticket == 0 && a.FenceAbove == 0
}

// Alone is for a claim that needs more than a look, or has a key more.
func (a *acquireCommand) Alone() bool { return a.Once != nil || !a.isPlain() }

// acquired reads the reply to it, and the server's clock in that reply.
func acquired(reply any, err error) (guardstore.ClaimReply, uint64, error) {
	lag, lags := err.(redisconn.AckError) //nolint:errorlint // as redisconn made it
	if err != nil && !lags {
		return guardstore.ClaimReply{}, 0, classify(err)
	}
	r, at, err := parseClaim(reply)
	if lags && r.Status == guardstore.ClaimHeld {
		return guardstore.ClaimReply{}, at, lag
	}
	return r, at, err
}

type releaseCommand struct {
	guardstore.Release

	store   *Store
	script  *redisconn.Script
	names   [5]string
	more    []string // keys
	careful bool     // the fence may be ahead of the server's clock
}

func (r *releaseCommand) Script() *redisconn.Script { return r.script }

func (r *releaseCommand) Keys() []string { return append(r.names[:], r.more...) }

func (r *releaseCommand) Shared(words []any) []any { return append(words, &r.store.channels) }

func (r *releaseCommand) Args(words []any) []any {
	words = append(words, &r.Owner, r.how())
	if r.Record != nil {
		words = onceArgs(append(words, stateWords[r.Record.State]), &r.Record.Once)
		words = append(words, &r.Record.Holder, r.Record.Result)
	}
	return words
}

// how is empty for most: the highest fence that was handed out, the MinHold, and whether a tombstone is needed.
func (r *releaseCommand) how() string {
	if r.isPlain() {
		return ""
	}
	mark := " -"
	if r.Tombstone {
		mark = " t"
	}
	return strconv.FormatUint(r.Fence, 10) + " " + strconv.FormatInt(r.MinHold.Milliseconds(), 10) + mark
}

// isPlain says that the release deletes the lock, unless another owner waits for it.
func (r *releaseCommand) isPlain() bool {
	return r.Limit == guardstore.Exclusive && !r.careful && !r.Tombstone && r.MinHold == 0 && r.Record == nil
}

// Alone is for a release that needs more, or has keys more.
func (r *releaseCommand) Alone() bool { return r.more != nil || !r.isPlain() }

// released reads the reply to it.
func released(reply any, err error) (guardstore.ReleaseReply, error) {
	if err != nil {
		return guardstore.ReleaseReply{}, classify(err)
	}
	return parseRelease(reply)
}

type renewCommand struct {
	*guardstore.Grant

	keys []string
	ttl  int64
}

func (*renewCommand) Script() *redisconn.Script { return renewScript }

func (r *renewCommand) Keys() []string { return r.keys }

func (*renewCommand) Shared(words []any) []any { return words }

func (r *renewCommand) Args(words []any) []any {
	words = append(words, &r.Owner, &r.Fence, &r.ttl, r.Depth, &r.Metadata)
	if r.Keep > 0 {
		words = append(words, r.Keep.Milliseconds())
	}
	return words
}

// Alone is for a hold beside others, or with a record, which has a key more.
func (r *renewCommand) Alone() bool { return len(r.keys) > 1 }
