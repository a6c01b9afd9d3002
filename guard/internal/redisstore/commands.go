package redisstore

import (
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// acquireCommand and releaseCommand are each in one piece of memory.
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

func (a *acquireCommand) Args(words []any) []any {
	place := any("")
	if a.Queue {
		place = &a.Ticket
	}
	marks := ""
	if a.store.replicas.N > 0 {
		marks = "w"
	}
	if a.Unsubscribed {
		marks += "u"
	}
	words = append(words, &a.Owner, &a.ttl, &a.Metadata, &a.FenceAbove, place, &a.store.channels, marks)
	if a.Once != nil {
		words = onceArgs(words, a.Once)
	}
	return words
}

// Batch is for a claim that has no place in a queue yet.
func (a *acquireCommand) Batch() *redisconn.Batch {
	if a.Ticket > 0 || a.FenceAbove > 0 || a.Once != nil {
		return nil
	}
	return acquireBatch
}

// acquired reads the reply to it.
func acquired(reply any, err error, parse func(any) (guardstore.ClaimReply, error)) (guardstore.ClaimReply, error) {
	lag, lags := err.(redisconn.AckError) //nolint:errorlint // as redisconn made it
	if err != nil && !lags {
		return guardstore.ClaimReply{}, classify(err)
	}
	r, err := parse(reply)
	if lags && r.Status == guardstore.ClaimHeld {
		return guardstore.ClaimReply{}, lag
	}
	return r, err
}

type releaseCommand struct {
	guardstore.Release

	store  *Store
	script *redisconn.Script
	names  [5]string
	more   []string // keys
	ttl    int64
}

func (r *releaseCommand) Script() *redisconn.Script { return r.script }

func (r *releaseCommand) Keys() []string { return append(r.names[:], r.more...) }

func (r *releaseCommand) Args(words []any) []any {
	words = append(words, &r.Owner, &r.ttl, &r.Fence, digit(r.Tombstone), r.MinHold.Milliseconds(), &r.store.channels)
	if r.Record != nil {
		words = onceArgs(append(words, stateWords[r.Record.State]), &r.Record.Once)
		words = append(words, &r.Record.Holder, r.Record.Result)
	}
	return words
}

func (r *releaseCommand) Batch() *redisconn.Batch {
	if r.Fence == 0 || r.Tombstone || r.MinHold > 0 || r.more != nil {
		return nil
	}
	return releaseBatch
}

// released reads the reply to it.
func released(reply any, err error) (guardstore.ReleaseReply, error) {
	if err != nil {
		return guardstore.ReleaseReply{}, classify(err)
	}
	return parseReleaseReply(reply)
}

var (
	acquireBatch = &redisconn.Batch{Script: acquireBatchScript, Args: func(words []any, c redisconn.Command) []any {
		a := c.(*acquireCommand)
		return append(words, &a.Owner, &a.ttl, &a.Metadata)
	}}
	releaseBatch = &redisconn.Batch{Script: releaseBatchScript, Args: func(words []any, c redisconn.Command) []any {
		r := c.(*releaseCommand)
		return append(words, &r.Owner, &r.ttl, &r.Fence)
	}}
)
