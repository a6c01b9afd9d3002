package redisconn

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

const (
	// dialsAtOnce is how many dials to one server are under way, at most.
	dialsAtOnce = 8
	// dialOverdue is when a dial counts no more. It may hang, and the next one may not.
	dialOverdue = time.Second
	// dialKept is for how long a connection waits for the next dial.
	dialKept = time.Second
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dials are those to one server. A dial goes on when its caller leaves, and the connection is for
// the next dial. If each caller dialled anew, a handshake that takes longer than a caller
// waits would never be of use; and where it takes long because there are too many, each that is
// given up would add one.
type dials struct {
	places chan struct{} // dialsAtOnce slots: those under way
	late   chan net.Conn // connections whose callers left
}

func newDials() *dials {
	return &dials{places: make(chan struct{}, dialsAtOnce), late: make(chan net.Conn)}
}

// dialer waits for a connection as long as ctx and the bounds let it. A dial ends after most.
func (d *dials) dialer(b bounds, most time.Duration, dial dialFunc) dialFunc {
	if most <= 0 {
		most = clock.Forever
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		what := "dial " + addr
		timeout, timer := b.begin(ctx)
		defer timer.Stop()
		late := lateError{what, timeout.Round(time.Millisecond)}
		left := make(chan struct{})
		defer close(left)
		var own <-chan dialled
		places := d.places
		for {
			select {
			case conn := <-d.late:
				return conn, nil
			default:
			}
			select {
			case conn := <-d.late:
				return conn, nil
			case places <- struct{}{}:
				places = nil
				own = d.begin(ctx, b, what, left, func(ctx context.Context) (net.Conn, error) {
					ctx, cancel := context.WithTimeout(ctx, most)
					defer cancel()
					return dial(ctx, network, addr)
				})
			case got := <-own:
				return got.conn, got.err
			case <-timer.C:
				return nil, late
			case <-ctx.Done():
				select {
				case <-timer.C: // the context ended for the same reason
					return nil, late
				default:
					return nil, ctx.Err()
				}
			case <-b.closed:
				return nil, redis.ErrClosed
			}
		}
	}
}

type dialled struct {
	conn net.Conn
	err  error
}

// begin dials in a place that was taken. What comes of it is its caller's, while that waits. Nobody
// else gets an error.
func (d *dials) begin(
	ctx context.Context, b bounds, what string, left <-chan struct{}, dial func(context.Context) (net.Conn, error),
) <-chan dialled {
	own := make(chan dialled)
	ctx = leavingCtx{context.WithoutCancel(ctx), b.closed}
	release := sync.OnceFunc(func() { <-d.places })
	overdue := time.AfterFunc(dialOverdue, release)
	inBackground(ctx, what, dial, func(conn net.Conn, err error) { //nolint:contextcheck // it goes on without its caller
		overdue.Stop()
		release()
		select {
		case own <- dialled{conn, err}:
			return
		case <-left:
		}
		if err != nil {
			return
		}
		kept := time.NewTimer(dialKept)
		defer kept.Stop()
		select {
		case d.late <- conn:
		case <-kept.C:
			_ = conn.Close()
		case <-b.closed:
			_ = conn.Close()
		}
	})
	return own
}
