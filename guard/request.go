package guard

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// request is a command, and what becomes of its reply.
type request interface {
	command
	// done is called once, and must not block.
	done(reply any, err error)
	// many is nil if the command has to go by itself.
	many() *many
}

// courier takes commands to Redis.
type courier interface {
	// do sends a command and waits, at most to the deadline of ctx; it may be executed all
	// the same.
	do(ctx context.Context, c command) (any, error)
	// start sends a request and returns, at the latest when its caller leaves. The request
	// is done when it is answered, or failed.
	start(p parcel)
}

// parcel is a request on its way.
type parcel struct {
	ctx     context.Context //nolint:containedctx // that of the command
	leave   context.Context //nolint:containedctx // when its caller leaves; nil = never
	request request
	inFull  bool // Redis does not know its script by name
	single  bool // it is not one of many
}

// acquiring, and the other requests, are each in one piece of memory.
type acquiring struct {
	guardstore.Claim

	store *redisStore
	names [4]string
	ttl   int64
	then  func(guardstore.ClaimReply, error)
}

func (a *acquiring) script() *script { return acquireScript }
func (a *acquiring) keys() []string  { return a.names[:] }

func (a *acquiring) args(words []any) []any {
	place := any("")
	if a.Queue {
		place = &a.Ticket
	}
	return append(words, &a.Owner, &a.store.channels, &a.ttl, place, &a.Metadata, &a.FenceAbove)
}

// many is for whoever did not meet anybody yet.
func (a *acquiring) many() *many {
	if a.Ticket > 0 || a.FenceAbove > 0 {
		return nil
	}
	return manyAcquires
}

func (a *acquiring) done(reply any, err error) {
	then := a.then
	a.then = nil                // a second answer would be some other claim's: see slots
	lag, lags := err.(lagError) //nolint:errorlint // as replicas made it
	if err != nil && !lags {
		then(guardstore.ClaimReply{}, classify(err))
		return
	}
	r, err := parseClaimReply(reply)
	if lags && r.Status == guardstore.ClaimHeld {
		r, err = guardstore.ClaimReply{}, lag
	}
	then(r, err)
}

type releasing struct {
	guardstore.Release

	store *redisStore
	names [4]string
	ttl   int64
	then  func(guardstore.ReleaseReply, error)
}

func (r *releasing) script() *script { return releaseScript }
func (r *releasing) keys() []string  { return r.names[:] }

func (r *releasing) args(words []any) []any {
	next := r.Next
	if next == nil {
		next = &guardstore.NextClaim{}
	}
	return append(words, &r.Owner, &r.store.channels, &r.ttl, &r.Fence, digit(r.Tombstone), &next.Owner, &next.Metadata)
}

func (r *releasing) many() *many {
	if r.Fence == 0 || r.Tombstone || r.Next != nil {
		return nil
	}
	return manyReleases
}

func (r *releasing) done(reply any, err error) {
	then := r.then
	r.then = nil              // as above
	_, lags := err.(lagError) //nolint:errorlint // as replicas made it
	if err != nil && !lags {
		then(guardstore.ReleaseReply{}, classify(err))
		return
	}
	got, err := parseReleaseReply(reply)
	if lags {
		got.Next = guardstore.ClaimReply{} // it asks by itself, and waits for the replicas then
	}
	then(got, err)
}

// asking is any other request.
type asking struct {
	command

	then func(any, error)
}

func (a asking) many() *many               { return nil }
func (a asking) done(reply any, err error) { a.then(reply, err) }
