package guard_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// visitor is a WithLock in the background.
type visitor struct {
	s     *site
	name  string
	in    chan struct{} // closed when its work begins
	leave chan struct{} // closed to let its work end
	done  chan error

	fence uint64    // read after in
	at    time.Time // likewise
}

func (s *site) visitor(ctx context.Context, name string, g *guard.Guard, key string, opts ...guard.LockOption) *visitor {
	v := &visitor{
		s: s, name: name,
		in: make(chan struct{}), leave: make(chan struct{}), done: make(chan error, 1),
	}
	go func() {
		v.done <- g.WithLock(ctx, guard.Key(key), func(ctx context.Context) error {
			defer s.book.enter(ctx, key, name)()
			v.fence, _ = guard.Fence(ctx)
			v.at = time.Now()
			close(v.in)
			select {
			case <-v.leave:
			case <-ctx.Done():
			}
			return nil
		}, opts...)
	}()
	return v
}

func (v *visitor) awaitIn() {
	v.s.Helper()
	v.s.await(v.in, v.name+" gets in")
}

// pass lets a visitor that is or will be in leave, and checks that it held the lock
// throughout.
func (v *visitor) pass() {
	v.s.Helper()
	v.awaitIn()
	close(v.leave)
	require.NoError(v.s, v.out(), v.name)
}

// out waits for the end of the call.
func (v *visitor) out() error {
	v.s.Helper()
	select {
	case err := <-v.done:
		return err
	case <-time.After(tooLong):
		v.s.Fatalf("not in time: the end of %s", v.name)
		return nil
	}
}

func (v *visitor) isIn() bool {
	select {
	case <-v.in:
		return true
	default:
		return false
	}
}

// book notes who is in: one at a time under each key, with fences that grow.
type book struct {
	tb     testing.TB
	mu     sync.Mutex
	inside map[string]string
	fences map[string]uint64
	order  []string
}

func newBook(tb testing.TB) *book {
	return &book{tb: tb, inside: make(map[string]string), fences: make(map[string]uint64)}
}

func (b *book) enter(ctx context.Context, key, who string) (leave func()) {
	fence, _ := guard.Fence(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, taken := b.inside[key]; taken {
		b.tb.Errorf("%s is in under %s while %s is", who, key, other)
	}
	if fence <= b.fences[key] {
		b.tb.Errorf("%s is in under %s with fence %d after %d", who, key, fence, b.fences[key])
	}
	b.inside[key], b.fences[key] = who, fence
	b.order = append(b.order, who)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.inside, key)
	}
}

// entered gives who was in, in order.
func (b *book) entered() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.order...)
}
