package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
)

const (
	// probeInterval is how often a message to oneself is sent while a caller waits, and how
	// long it may take. go-redis notices neither a half-open subscription nor one to a
	// server that was demoted.
	probeInterval = time.Second
	// reconnectWait is the pause after a subscription broke. It doubles up to reconnectMost while
	// subscriptions do not last, as where a proxy closes the connection.
	reconnectWait = 50 * time.Millisecond
	reconnectMost = time.Second
	// refusedWait is the pause where the right to subscribe is missing.
	refusedWait = 5 * time.Second

	// lostProbes in a row mean that the subscription is silent.
	lostProbes = 2

	probe     = "?"
	firstMark = "+"

	// revokedMark stands before the owner of a hold that an operator ended, see package
	// inspect.
	revokedMark = "!"
)

var errNoMessages = errors.New("no messages come")

// Listen keeps one subscription, to the instance's channel. It opens another when that goes silent, or
// after a refusal. The Listener is notified of each break, and when messages flow again.
func (s *Store) Listen(ctx context.Context, instance string, l guardstore.Listener) {
	for ctx.Err() == nil {
		err := s.subscribe(ctx, Channel(s.prefix, instance), l)
		if ctx.Err() != nil {
			return
		}
		l.Notify(guardstore.Notification{Err: err})
		if Answered(err) {
			rest(ctx, refusedWait)
		}
	}
}

// subscribe serves one subscription until ctx ends, probes are lost or Redis refuses it. When its
// connection breaks, go-redis connects it again. go-redis's own channels would pass each message on to one
// goroutine more.
func (s *Store) subscribe(ctx context.Context, channel string, l guardstore.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	sub := s.conn.Subscribe(ctx, channel)
	var missing atomic.Int32 // probes that did not come back
	var watching sync.WaitGroup
	watching.Go(func() {
		s.watch(ctx, channel, l, &missing)
		_ = sub.Close()
	})
	defer watching.Wait()
	defer cancel()
	pause, broke := reconnectWait, time.Now()
	for {
		m, err := sub.Receive(ctx)
		switch m := m.(type) {
		case *redis.Subscription:
			l.Notify(guardstore.Notification{})
		case *redis.Message:
			missing.Store(0)
			if m.Payload != probe {
				l.Notify(parseNotification(m.Payload))
			}
		}
		if err == nil {
			continue
		}
		if missing.Load() >= lostProbes || ctx.Err() != nil {
			return errNoMessages
		}
		if err = classify(err); Answered(err) {
			return err
		}
		missing.Store(0)
		s.conn.NodeFailed(ctx, err)
		l.Notify(guardstore.Notification{Err: err})
		if time.Since(broke) > 2*reconnectMost {
			pause = reconnectWait
		}
		broke = time.Now()
		rest(ctx, pause)
		pause = min(2*pause, reconnectMost)
	}
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// watch returns when ctx ended or two probes in a row were lost.
func (s *Store) watch(ctx context.Context, channel string, l guardstore.Listener, missing *atomic.Int32) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	var probes prober
	defer probes.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !l.Waiting() {
			missing.Store(0)
			continue
		}
		if missing.Load() > 0 {
			s.conn.NodeFailed(ctx, errNoMessages)
		}
		if missing.Load() >= lostProbes {
			return
		}
		missing.Add(1)
		s.sendProbe(ctx, channel, &probes)
	}
}

// prober sends one probe at a time.
type prober struct {
	sync.WaitGroup
	sending atomic.Bool
}

// sendProbe publishes on the path that grants take, without waiting for it.
func (s *Store) sendProbe(ctx context.Context, channel string, p *prober) {
	if !p.sending.CompareAndSwap(false, true) {
		return
	}
	p.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, probeInterval)
		defer cancel()
		_ = s.conn.Publish(ctx, channel, probe) // its absence will be noticed
		p.sending.Store(false)
	})
}

func parseNotification(payload string) guardstore.Notification {
	if owner, revoked := strings.CutPrefix(payload, revokedMark); revoked {
		return guardstore.Notification{Owner: owner, Revoked: true}
	}
	owner, front := strings.CutPrefix(payload, firstMark)
	return guardstore.Notification{Owner: owner, First: front}
}
