package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resp "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
)

type notification = guardstore.Notification

// subscriptions is a Redis that has subscriptions only, in virtual time. Times are since its begin.
type subscriptions struct {
	conn

	client  *redis.Client
	begun   time.Time
	publish func(ctx context.Context, message string) // what a probe does
	waiting func() bool

	mu         sync.Mutex
	dialFails  bool
	refuses    string // what SUBSCRIBE is answered
	conns      []net.Conn
	peers      []*resp.Peer
	dials      []time.Duration
	subscribed []time.Duration
	published  []time.Duration
	failures   []time.Duration // of the node
	notified   []notification

	probing, mostProbing int // probes at the same time
}

// onSubscriptions runs a test while a Store listens.
func onSubscriptions(t *testing.T, prepare, test func(s *subscriptions)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := resp.NewServerConn()
		s := &subscriptions{begun: time.Now(), waiting: func() bool { return true }}
		s.publish = func(_ context.Context, message string) { s.send(message) }
		server.SetPreHook(func(p *resp.Peer, command string, args ...string) bool {
			if command != "SUBSCRIBE" {
				return false // as the handshake: it is not known
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.subscribed = append(s.subscribed, time.Since(s.begun))
			if s.refuses != "" {
				p.WriteError(s.refuses)
				return true
			}
			s.peers = append(s.peers, p)
			p.Block(func(w *resp.Writer) {
				w.WriteLen(3)
				w.WriteBulk("subscribe")
				w.WriteBulk(args[0])
				w.WriteInt(1)
			})
			return true
		})
		s.client = redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:1", Protocol: 2, DisableIdentity: true, DialerRetries: 1,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.dials = append(s.dials, time.Since(s.begun))
				if s.dialFails {
					return nil, errors.New("refused")
				}
				ours, theirs := net.Pipe()
				s.conns = append(s.conns, theirs)
				server.ServeConn(theirs)
				return ours, nil
			},
		})
		prepare(s)
		ctx, cancel := context.WithCancel(t.Context())
		var listens sync.WaitGroup
		listens.Go(func() { (&Store{conn: s, prefix: "guard"}).Listen(ctx, "instance", s) })
		test(s)
		s.after(0)
		cancel()
		listens.Wait()
		assert.Zero(t, s.probing, "Listen waits for its probe")
		synctest.Wait()
		assert.Zero(t, server.ClientsLen())
		require.NoError(t, s.client.Close())
	})
}

func (s *subscriptions) Subscribe(ctx context.Context, channel string) *redis.PubSub {
	return s.client.Subscribe(ctx, channel)
}

func (s *subscriptions) Publish(ctx context.Context, _, message string) error {
	s.mu.Lock()
	s.published = append(s.published, time.Since(s.begun))
	s.probing++
	s.mostProbing = max(s.mostProbing, s.probing)
	s.mu.Unlock()
	s.publish(ctx, message)
	s.mu.Lock()
	s.probing--
	s.mu.Unlock()
	return nil
}

func (s *subscriptions) NodeFailed(context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, time.Since(s.begun))
}

func (s *subscriptions) Notify(n notification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notified = append(s.notified, n)
}

func (s *subscriptions) Waiting() bool { return s.waiting() }

// send sends a message to the last subscriber.
func (s *subscriptions) send(message string) {
	s.mu.Lock()
	p := s.peers[len(s.peers)-1]
	s.mu.Unlock()
	p.Block(func(w *resp.Writer) {
		w.WriteStrings([]string{"message", "guard:grant:instance", message})
		w.Flush()
	})
}

// after waits until some time has passed since the begin, and all that happens by then has happened.
func (s *subscriptions) after(d time.Duration) {
	s.mu.Lock() // what the test read comes before what follows
	left := time.Until(s.begun.Add(d))
	s.mu.Unlock()
	time.Sleep(left)
	synctest.Wait()
}

func every(pause time.Duration, n int) (times []time.Duration) {
	for i := range n {
		times = append(times, pause*time.Duration(i+1))
	}
	return times
}

func lose(s *subscriptions) { s.publish = func(context.Context, string) {} }

var flowing = notification{}

// Probes come back each second: nothing is replaced, and the Listener learns of messages only.
func TestListen_MessagesFlow(t *testing.T) {
	onSubscriptions(t, func(*subscriptions) {}, func(s *subscriptions) {
		s.after(5500 * time.Millisecond)
		for _, message := range []string{"a-1", "+a-2", "!a-3"} {
			s.send(message)
		}
		s.after(10500 * time.Millisecond)
		assert.Equal(t, []time.Duration{0}, s.subscribed)
		assert.Equal(t, every(probeInterval, 10), s.published)
		assert.Empty(t, s.failures)
		assert.Equal(t, []notification{flowing, {Owner: "a-1"}, {Owner: "a-2", First: true}, {Owner: "a-3", Revoked: true}}, s.notified)
	})
}

// Two probes in a row do not come back: the subscription is replaced. One may be lost.
func TestListen_TwoLostProbesReplaceTheSubscription(t *testing.T) {
	onSubscriptions(t, lose, func(s *subscriptions) {
		s.after(6500 * time.Millisecond)
		assert.Equal(t, []time.Duration{0, 3 * time.Second, 6 * time.Second}, s.subscribed)
		assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second}, s.published)
		assert.Equal(t, []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second, 6 * time.Second}, s.failures)
		assert.Equal(t, []notification{flowing, flowing, flowing}, s.notified)
	})
	onSubscriptions(t, func(s *subscriptions) {
		s.publish = func(_ context.Context, message string) {
			if len(s.published)%2 == 0 {
				s.send(message)
			}
		}
	}, func(s *subscriptions) {
		s.after(10500 * time.Millisecond)
		assert.Equal(t, []time.Duration{0}, s.subscribed)
		assert.Len(t, s.failures, 5, "one is enough to ask the cluster anew")
	})
}

// While nobody waits there are no probes, and those that were lost before do not count.
func TestListen_ProbesAreForCallersThatWait(t *testing.T) {
	onSubscriptions(t, func(s *subscriptions) {
		lose(s)
		second := 0
		s.waiting = func() bool { second++; return second%3 != 0 }
	}, func(s *subscriptions) {
		s.after(9500 * time.Millisecond)
		assert.Equal(t, []time.Duration{0}, s.subscribed)
		assert.Len(t, s.published, 6)
		assert.Len(t, s.failures, 3)
	})
}

// A probe that hangs is given up when the next one is due, and Listen does not return before it has ended.
func TestListen_OneProbeAtATime(t *testing.T) {
	onSubscriptions(t, func(s *subscriptions) {
		s.publish = func(ctx context.Context, _ string) {
			<-ctx.Done()
			time.Sleep(probeInterval / 4)
		}
	}, func(s *subscriptions) {
		s.after(2500 * time.Millisecond)
		assert.Equal(t, []time.Duration{time.Second}, s.published)
		s.after(4500 * time.Millisecond)
		assert.Equal(t, []time.Duration{time.Second, 4 * time.Second}, s.published, "after it was given up")
		assert.Equal(t, 1, s.mostProbing)
	})
}

// The connection breaks: the next one is opened at once, each time.
func TestListen_ABrokenConnectionIsReplacedAtOnce(t *testing.T) {
	onSubscriptions(t, func(*subscriptions) {}, func(s *subscriptions) {
		for n := range 3 {
			s.after(time.Duration(n+1) * 100 * time.Millisecond)
			require.NoError(t, s.conns[n].Close())
		}
		s.after(310 * time.Millisecond)
		assert.Equal(t, append([]time.Duration{0}, every(100*time.Millisecond, 3)...), s.subscribed)
		assert.Len(t, s.notified, 4, "it does not rest")
	})
}

// Redis is not there: it rests between tries, but for the first.
func TestListen_RestsWhileThereIsNoConnection(t *testing.T) {
	onSubscriptions(t, func(s *subscriptions) { s.dialFails = true }, func(s *subscriptions) {
		s.after(reconnectWait*3 + 1)
		assert.Equal(t, []time.Duration{0, 0, 0, reconnectWait, 2 * reconnectWait, 3 * reconnectWait}, s.dials)
		s.dialFails = false
		s.after(reconnectWait * 4)
		assert.Equal(t, []notification{flowing}, s.notified)
	})
}

// A refusal is reported at once, each time, and nothing is asked meanwhile.
func TestListen_RestsAfterARefusal(t *testing.T) {
	onSubscriptions(t, func(s *subscriptions) { s.refuses = "NOPERM no subscribe" }, func(s *subscriptions) {
		s.after(0)
		require.Len(t, s.notified, 1)
		require.ErrorContains(t, s.notified[0].Err, "NOPERM")
		s.after(refusedWait - 1)
		assert.Equal(t, []time.Duration{0}, s.subscribed)
		assert.Empty(t, s.published)
		s.refuses = ""
		s.after(refusedWait)
		assert.Equal(t, flowing, s.notified[1])
		assert.Equal(t, []time.Duration{0, refusedWait}, s.subscribed)
	})
}
