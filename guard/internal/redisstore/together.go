package redisstore

import (
	"context"
	"sync"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// Together sends claims and releases in one write, as they go out under load, and returns
// when all of them are answered: claims first in errs. It is there for tests.
func (s *Store) Together(ctx context.Context, claims []guardstore.Claim, releases []guardstore.Release) (claimed []guardstore.ClaimReply, released []guardstore.ReleaseReply, errs []error) {
	claimed, released = make([]guardstore.ClaimReply, len(claims)), make([]guardstore.ReleaseReply, len(releases))
	errs = make([]error, len(claims)+len(releases))
	requests := make([]redisconn.Request, 0, len(errs))
	var answered sync.WaitGroup
	answered.Add(len(errs))
	for i, c := range claims {
		requests = append(requests, &acquireCommand{c, s, s.keys(c.Key), c.TTL.Milliseconds(), func(r guardstore.ClaimReply, err error) {
			claimed[i], errs[i] = r, err
			answered.Done()
		}})
	}
	for i, r := range releases {
		requests = append(requests, &releaseCommand{r, s, s.keys(r.Key), r.TTL.Milliseconds(), func(r guardstore.ReleaseReply, err error) {
			released[i], errs[len(claims)+i] = r, err
			answered.Done()
		}})
	}
	s.conn.StartTogether(ctx, requests)
	answered.Wait()
	return claimed, released, errs
}
