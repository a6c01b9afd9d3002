package chaos_test

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/inspect"
)

// stepTimeout is how long somebody tries who steps in.
const stepTimeout = time.Second

// stepFaults are what somebody does who looks at locks and steps in.
var stepFaults = []fault{
	{"hold revoked", 8, func(s *storm) *harm { return s.stepIn(false) }},
	{"hold broken", 3, func(s *storm) *harm { return s.stepIn(true) }},
}

// stepIn is what somebody did to a hold, or may have done.
type stepIn struct {
	span
	key   string
	fence uint64
	done  bool // for sure
}

// stepIn revokes or breaks a hold that is there, or was a moment ago.
func (s *storm) stepIn(breaks bool) *harm {
	keys := slices.Concat(lockKeys, []string{exportKey, bookKey, leadKey})
	key, nth := pick(s.rng, keys...), s.rng.IntN(100)
	wait := time.Duration(0)
	if chance(s.rng, 50) {
		wait = upTo(s.rng, 100*time.Millisecond) // for another one to come
	}
	client := s.inspected()
	if client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	i := inspect.New(client)
	var info inspect.Info
	for begun := time.Now(); len(info.Holders) == 0; {
		var err error
		if info, err = i.Get(ctx, key); err != nil || time.Since(begun) > stepTimeout/2 {
			return nil // no server answers, or nobody wants it
		}
	}
	rest(wait, nil)
	step := stepIn{key: key, fence: info.Holders[nth%len(info.Holders)].Fence, span: span{from: stamp()}}
	var err error
	if breaks {
		step.done, err = i.Break(ctx, key, step.fence)
	} else {
		step.done, err = i.Revoke(ctx, key, step.fence)
	}
	step.to = stamp()
	if step.done || err != nil {
		s.stepsIn = append(s.stepsIn, step)
		if breaks {
			s.losses = append(s.losses, loss{span: step.span, key: key})
		}
	}
	return &harm{target: key}
}

// inspected is where somebody looks who looks at locks: a server that takes writes.
func (s *storm) inspected() redis.UniversalClient {
	if s.net.all != nil {
		return s.net.all
	}
	for i := range s.net.size {
		if s.net.isPrimary(i) && !s.harmed[serverTarget(i)] {
			return s.net.admins[i]
		}
	}
	return nil
}
