package redisconn

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const dialTimeout = 5 * time.Second

// slowServer takes its time for a handshake.
type slowServer struct {
	dials
	bounds
	hangUp func()
	takes  time.Duration
	err    error // what comes of a dial
	begun  atomic.Int64
	ended  atomic.Int64 // dials whose ctx ended

	mu    sync.Mutex
	conns []*connTo
}

func (s *slowServer) conn(i int) *connTo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[i]
}

// onSlowServer runs a test where a caller waits for 100 ms.
func onSlowServer(t *testing.T, run func(t *testing.T, s *slowServer)) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		hangUp := sync.OnceFunc(func() { close(closed) })
		defer hangUp()
		run(t, &slowServer{dials: *newDials(), bounds: bounds{100 * time.Millisecond, closed}, hangUp: hangUp})
	})
}

func (s *slowServer) dial(ctx context.Context) (net.Conn, error) {
	ctx, leave := context.WithTimeout(ctx, 120*time.Millisecond)
	defer leave()
	return s.dialer(s.bounds, dialTimeout, func(ctx context.Context, _, addr string) (net.Conn, error) {
		s.begun.Add(1)
		refused := s.err
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			s.ended.Add(1)
			return nil, ctx.Err()
		}
		if refused != nil {
			return nil, refused
		}
		c := &connTo{addr: addr}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, c)
		return c, nil
	})(ctx, "tcp", "server")
}

// A handshake takes longer than anybody waits. The connection is for the next dial.
func TestDials_ADialThatTakesLongIsOfUseToTheNext(t *testing.T) {
	for range 20 { // a connection that is there is not left to chance
		onSlowServer(t, func(t *testing.T, s *slowServer) {
			s.takes = 250 * time.Millisecond
			for range 2 {
				_, err := s.dial(t.Context())
				require.ErrorContains(t, err, "dial server: not done after 100ms")
			}
			conn, err := s.dial(t.Context())
			require.NoError(t, err)
			assert.Same(t, s.conn(0), conn)
			time.Sleep(120 * time.Millisecond) // the second is there
			begun := s.begun.Load()
			conn, err = s.dial(t.Context())
			require.NoError(t, err)
			assert.Same(t, s.conn(1), conn)
			synctest.Wait()
			assert.Equal(t, begun, s.begun.Load(), "there was a connection")
		})
	}
}

// Each caller that is given up would else add a dial.
func TestDials_ToOneServerAreBounded(t *testing.T) {
	onSlowServer(t, func(t *testing.T, s *slowServer) {
		s.takes = time.Hour
		for range 9 { // 900 ms
			for range 9 {
				go func() { _, _ = s.dial(t.Context()) }()
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		assert.EqualValues(t, dialsAtOnce, s.begun.Load())

		// They may hang, and the next may not.
		time.Sleep(100 * time.Millisecond)
		s.takes = 0
		_, err := s.dial(t.Context())
		require.NoError(t, err)
		s.hangUp()
	})
}

// More come than may dial. A caller that waits for a place takes no connection from one that waits for its own.
func TestDials_EverybodyGetsAConnection(t *testing.T) {
	onSlowServer(t, func(t *testing.T, s *slowServer) {
		s.takes = 30 * time.Millisecond
		var callers sync.WaitGroup
		for range 3 * dialsAtOnce {
			callers.Go(func() {
				_, err := s.dial(t.Context())
				assert.NoError(t, err)
			})
		}
		callers.Wait()
		assert.EqualValues(t, 3*dialsAtOnce, s.begun.Load())
	})
}

func TestDials_ADialThatFailsIsThatOfItsCaller(t *testing.T) {
	onSlowServer(t, func(t *testing.T, s *slowServer) {
		s.takes, s.err = 50*time.Millisecond, errors.New("refused")
		_, err := s.dial(t.Context())
		require.ErrorIs(t, err, s.err)

		leaving, leave := context.WithCancel(t.Context())
		go func() { _, _ = s.dial(leaving) }()
		synctest.Wait()
		leave()
		time.Sleep(10 * time.Millisecond)
		s.err = nil
		conn, err := s.dial(t.Context())
		require.NoError(t, err)
		assert.Same(t, s.conn(0), conn, "what another caller had begun had failed")
	})
}

// Nobody may want the connection. Redis would have to keep it.
func TestDials_AConnectionThatNobodyWantsIsClosed(t *testing.T) {
	onSlowServer(t, func(t *testing.T, s *slowServer) {
		s.takes = 150 * time.Millisecond
		_, err := s.dial(t.Context())
		require.Error(t, err)
		time.Sleep(dialKept)
		synctest.Wait()
		assert.False(t, s.conn(0).closed.Load())
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		assert.True(t, s.conn(0).closed.Load())
	})
}

func TestDials_EndWithTheClient(t *testing.T) {
	onSlowServer(t, func(t *testing.T, s *slowServer) {
		s.takes = time.Hour
		_, err := s.dial(t.Context())
		require.Error(t, err)
		var waiting error
		go func() { _, waiting = s.dial(t.Context()) }()
		synctest.Wait()
		s.hangUp()
		synctest.Wait()
		require.ErrorIs(t, waiting, redis.ErrClosed)
		assert.EqualValues(t, 2, s.ended.Load())
	})
}

// Nobody waits any more, and user code may have no bound of its own.
func TestDials_ADialEndsAtItsOwnTimeout(t *testing.T) {
	onSlowServer(t, func(t *testing.T, s *slowServer) {
		s.takes = time.Hour
		_, err := s.dial(t.Context())
		require.Error(t, err)
		time.Sleep(dialTimeout - 200*time.Millisecond)
		synctest.Wait()
		require.Zero(t, s.ended.Load())
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 1, s.ended.Load())
	})
}

func TestDials_AKeptConnectionIsClosedWithTheClient(t *testing.T) {
	onSlowServer(t, func(t *testing.T, s *slowServer) {
		s.takes = 150 * time.Millisecond
		_, err := s.dial(t.Context())
		require.Error(t, err)
		time.Sleep(100 * time.Millisecond)
		s.hangUp()
		synctest.Wait()
		assert.True(t, s.conn(0).closed.Load())
	})
}
