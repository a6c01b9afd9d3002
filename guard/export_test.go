package guard

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

// What a lock that nobody else wants sends to Redis.
var (
	AcquireSource = Scripts()["acquire"]
	ReleaseSource = Scripts()["release"]
)

// Remembered is how many keys and claims a Guard knows of at this moment.
func Remembered(g *Guard) int {
	keys, claims, _ := g.cohorts.Size()
	return keys + claims
}

// InLine is how many callers stand in line in a Guard at this moment.
func InLine(g *Guard) int {
	_, _, waiting := g.cohorts.Size()
	return waiting
}

// Scripts are the sources of what is sent to Redis, by name.
func Scripts() map[string]string { return redisstore.Scripts() }

// Together sends what a Guard under load sends in one write, to one Redis, and returns when
// all of it is answered.
func Together(ctx context.Context, s guardstore.Store, claims []guardstore.Claim, releases []guardstore.Release) (claimed []guardstore.ClaimReply, released []guardstore.ReleaseReply, errs []error) {
	return s.(*redisstore.Store).Together(ctx, claims, releases)
}
