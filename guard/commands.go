package guard

import "github.com/redlatch/redlatch/guard/guardstore"

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

var (
	manyAcquires = &many{acquireManyScript, func(words []any, r request) []any {
		a := r.(*acquiring)
		return append(words, &a.Owner, &a.ttl, &a.Metadata)
	}}
	manyReleases = &many{releaseManyScript, func(words []any, r request) []any {
		a := r.(*releasing)
		return append(words, &a.Owner, &a.ttl, &a.Fence)
	}}
)
