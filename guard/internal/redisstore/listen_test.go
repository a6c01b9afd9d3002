package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
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
	cuts       bool   // SUBSCRIBE closes the connection
	refuses    string // what SUBSCRIBE is answered
	conns      []net.Conn
	peers      []*resp.Peer
	dials      []time.Duration
	subscribed []time.Duration
	published  []time.Duration
	failures   []time.Duration // of the node
	notified   []notification
	flows      []time.Duration // when messages flowed again

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
			if s.cuts {
				p.Close()
				return true
			}
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
		listens.Go(func() { (&Store{conn: s, prefix: "redlatch"}).Listen(ctx, "instance", s) })
		test(s)
		s.after(0)
		notified := len(s.notified)
		cancel()
		listens.Wait()
		assert.Len(t, s.notified, notified, "the end is no failure")
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
	if n == flowing {
		s.flows = append(s.flows, time.Since(s.begun))
	}
}

func (s *subscriptions) Waiting() bool { return s.waiting() }

// send sends a message to the last subscriber.
func (s *subscriptions) send(message string) {
	s.mu.Lock()
	p := s.peers[len(s.peers)-1]
	s.mu.Unlock()
	p.Block(func(w *resp.Writer) {
		w.WriteStrings([]string{"message", "redlatch:grant:instance", message})
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
		next := 3 * time.Second
		assert.Equal(t, []time.Duration{0, next, 2 * next}, s.subscribed)
		assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, next + time.Second, next + 2*time.Second}, s.published)
		assert.Equal(t, []time.Duration{2 * time.Second, 3 * time.Second, next + 2*time.Second, next + 3*time.Second}, s.failures)
		silent := notification{Err: errNoMessages}
		assert.Equal(t, []notification{flowing, silent, flowing, silent, flowing}, s.notified)
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

// While no caller waits there are no probes, and those that were lost before do not count.
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

// The connection breaks: the Listener learns that at once, and the next one is opened soon.
func TestListen_ABrokenConnectionIsReplaced(t *testing.T) {
	onSubscriptions(t, func(*subscriptions) {}, func(s *subscriptions) {
		s.after(2 * time.Second)
		require.NoError(t, s.conns[0].Close())
		s.after(2 * time.Second)
		require.Len(t, s.notified, 2)
		require.ErrorIs(t, s.notified[1].Err, io.EOF)
		s.after(2*time.Second + reconnectWait)
		assert.Equal(t, []time.Duration{0, 2 * time.Second}, s.subscribed)
		assert.Equal(t, flowing, s.notified[2])
		assert.Equal(t, []time.Duration{2 * time.Second}, s.failures, "another node may serve the channel now")
	})
}

// A pause is twice the last one if the connection broke soon after another.
func TestListen_PausesAreShortAgainWhenASubscriptionLasts(t *testing.T) {
	onSubscriptions(t, func(*subscriptions) {}, func(s *subscriptions) {
		want := []time.Duration{0}
		for _, broken := range []struct{ at, pause time.Duration }{
			{3 * time.Second, reconnectWait},
			{3*time.Second + 500*time.Millisecond, 2 * reconnectWait},
			{5*time.Second + 500*time.Millisecond, 4 * reconnectWait},
			{7*time.Second + 500*time.Millisecond + 1, reconnectWait},
		} {
			s.after(broken.at)
			require.NoError(t, s.conns[len(s.conns)-1].Close())
			want = append(want, broken.at+broken.pause)
		}
		s.after(9 * time.Second)
		assert.Equal(t, want, s.flows)
	})
}

// Redis is not there, or closes the connection at SUBSCRIBE: the pauses grow to a second.
func TestListen_PausesGrowWhereNoSubscriptionLasts(t *testing.T) {
	var tries []time.Duration
	for _, ms := range []int{0, 50, 150, 350, 750, 1550, 2550, 3550} {
		tries = append(tries, time.Duration(ms)*time.Millisecond)
	}
	for name, fails := range map[string]func(s *subscriptions){
		"no connection": func(s *subscriptions) { lose(s); s.dialFails = true },
		"a cut":         func(s *subscriptions) { lose(s); s.cuts = true },
	} {
		onSubscriptions(t, fails, func(s *subscriptions) {
			s.after(4 * time.Second)
			var dials []time.Duration // go-redis dials twice for each try
			for _, at := range s.dials {
				if !slices.Contains(dials, at) {
					dials = append(dials, at)
				}
			}
			assert.Equal(t, tries, dials, name)
			assert.LessOrEqual(t, len(s.dials), 2*len(tries), name)
			s.dialFails, s.cuts = false, false
			s.after(6 * time.Second)
			assert.Equal(t, flowing, s.notified[len(s.notified)-1], name)
		})
	}
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
