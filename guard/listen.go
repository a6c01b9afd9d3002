package guard

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// probePulse is how often a message to oneself is sent while anybody waits, and how
	// long it may take. go-redis notices neither a half-open subscription nor one to a
	// server that was demoted.
	probePulse = time.Second

	probe     = "?"
	frontMark = "+"
)

// Listen keeps one subscription, to the instance's channel, and replaces it when it
// goes silent.
func (s *redisStore) Listen(ctx context.Context, instance string, l Listener) {
	channel := s.channel(instance)
	for ctx.Err() == nil {
		s.subscribe(ctx, channel, l)
	}
}

// subscribe serves one subscription until ctx ends or a probe is lost.
func (s *redisStore) subscribe(ctx context.Context, channel string, l Listener) {
	sub := s.private.Subscribe(ctx, channel)
	defer func() { _ = sub.Close() }()
	messages := sub.ChannelWithSubscriptions(redis.WithChannelSize(1000))
	pulse := time.NewTicker(probePulse)
	defer pulse.Stop()
	var probes prober
	defer probes.Wait()
	missing := 0
	for {
		select {
		case <-ctx.Done():
			return
		case m, open := <-messages:
			if !open {
				return
			}
			switch m := m.(type) {
			case *redis.Subscription:
				l.Ask(Wake{})
			case *redis.Message:
				missing = 0
				if m.Payload != probe {
					l.Ask(parseWake(m.Payload))
				}
			}
		case <-pulse.C:
			if !l.Waiting() {
				missing = 0
				continue
			}
			if missing > 0 {
				s.nodes.heed(ctx, errSilent) // another node may serve the channel now
			}
			if missing == 2 {
				return
			}
			missing++
			s.sendProbe(ctx, channel, &probes)
		}
	}
}

// prober sends one probe at a time.
type prober struct {
	sync.WaitGroup
	sending atomic.Bool
}

// sendProbe publishes over the path that grants take, without waiting for it.
func (s *redisStore) sendProbe(ctx context.Context, channel string, p *prober) {
	if !p.sending.CompareAndSwap(false, true) {
		return
	}
	p.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, probePulse)
		defer cancel()
		_ = s.private.Publish(ctx, channel, probe).Err() // its absence will be noticed
		p.sending.Store(false)
	})
}

func parseWake(payload string) Wake {
	owner, front := strings.CutPrefix(payload, frontMark)
	return Wake{Owner: owner, Front: front}
}
