package guardtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/guard"
)

// Order returns an Observer that fails the test when locks are nested in two orders: a lock of
// the Name "order" is asked for under one of the Name "account", and somewhere else, at any
// time, an account is asked for under an order. Callers like these can wait for each other,
// whether or not they did in this run. A circle of three or more is found, too.
//
//	g := guardtest.NewMemoryGuard(t, guard.Observe(guardtest.Order(t)))
//
// Locks of different Names are compared by Name, those of one Name by key. So give the kinds
// of locks their Names: guard.Keyf does, guard.Key does not. A lock without a Name is
// compared by its key with all others. One Order may watch several Guards; it takes equal
// keys for one lock.
//
// Every call counts that asks for a key that its context does not hold, also one with NoWait.
// The keys of one WithLocks are in order by themselves. Each circle is reported once, when it
// is closed, with the lines that asked. What a goroutine does after the end of the test does
// not count.
func Order(tb testing.TB) guard.Observer {
	o := &order{tb: tb, under: graph{}}
	tb.Cleanup(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ended = true
	})
	return o
}

type order struct {
	guard.NopObserver
	tb testing.TB

	mu    sync.Mutex
	ended bool
	under graph
}

// graph has for each kind of lock those that were asked for under it, and where that was.
type graph map[kind]map[kind]string

// kind is a Name, or one key of it.
type kind struct{ name, key string }

func (k kind) String() string {
	switch {
	case k.key == "":
		return fmt.Sprintf("lock %q", k.name)
	case k.name == "":
		return fmt.Sprintf("lock with key %q", k.key)
	}
	return fmt.Sprintf("lock %q with key %q", k.name, k.key)
}

// kindOf is by key where the Name does not tell two locks apart.
func kindOf(l, other guard.Lock) kind {
	if l.Name == other.Name || l.Name == "" {
		return kind{l.Name, l.Key}
	}
	return kind{l.Name, ""}
}

type heldKey struct{}

// held is a lock that a context runs under, by HoldStart.
type held struct {
	guard.Lock
	outer *held
	under *guard.Lease // the innermost lease that it was asked for under, if any
}

// HoldStart implements guard.Observer.
func (o *order) HoldStart(ctx context.Context, l guard.Lock, _ guard.Hold) context.Context {
	outer, _ := ctx.Value(heldKey{}).(*held)
	under, _ := guard.FromContext(ctx)
	return context.WithValue(ctx, heldKey{}, &held{l, outer, under})
}

// WaitStart implements guard.Observer.
func (o *order) WaitStart(ctx context.Context, l guard.Lock) context.Context {
	around := heldIn(ctx)
	if _, ok := guard.Held(ctx, guard.Key(l.Key)); ok || slices.ContainsFunc(around, func(h guard.Lock) bool { return h.Key == l.Key }) {
		return ctx // re-entry does not wait
	}
	for _, h := range around {
		o.nested(h, l)
	}
	return ctx
}

// heldIn returns the locks that a context runs under, the innermost first. After Detach, or when
// it was lost, a lock is not held any more. Held does not see permits and readers: their
// leases come from FromContext, from the inside out.
func heldIn(ctx context.Context) (all []guard.Lock) {
	lease, _ := guard.FromContext(ctx)
	innermost, _ := ctx.Value(heldKey{}).(*held)
	for h := innermost; h != nil; h = h.outer {
		if _, ok := guard.Held(ctx, guard.Key(h.Key)); ok {
			all = append(all, guard.Lock{Name: h.Name, Key: h.Key})
		} else if lease != nil && lease.Key() == h.Key && lease.Err() == nil {
			all = append(all, guard.Lock{Name: h.Name, Key: h.Key})
		}
		lease = h.under
	}
	return all
}

// nested notes that inner was asked for under outer.
func (o *order) nested(outer, inner guard.Lock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	from, to := kindOf(outer, inner), kindOf(inner, outer)
	if o.under[from][to] != "" {
		return
	}
	if o.under[from] == nil {
		o.under[from] = map[kind]string{}
	}
	o.under[from][to] = where()
	circle := o.under.path(to, from)
	if circle == nil {
		return
	}
	text := "guardtest: locks are nested in two orders, so their callers can wait for each other:"
	outside := from
	for _, inside := range circle {
		text += fmt.Sprintf("\n\t%v, and under it %v: %s", outside, inside, o.under[outside][inside])
		outside = inside
	}
	o.tb.Errorf("%s", text)
}

// path returns the shortest way from one lock to another, nil if there is none.
func (g graph) path(from, to kind) []kind {
	cameFrom := map[kind]kind{from: from}
	for queue := []kind{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == to {
			path := []kind{at}
			for at != from {
				at = cameFrom[at]
				path = append(path, at)
			}
			slices.Reverse(path)
			return path
		}
		for next := range g[at] {
			if _, known := cameFrom[next]; !known {
				cameFrom[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// where returns the line that asked for a lock: the first one outside of this module's library
// code.
func where() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if !isLibrary(frame.Function) && frame.File != "" {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
		if !more {
			return "an unknown line"
		}
	}
}

func isLibrary(function string) bool {
	for _, p := range []string{"guard.", "guard/internal/", "guard/guardtest.", "middleware/"} {
		if strings.HasPrefix(function, "github.com/redlatch/redlatch/"+p) {
			return true
		}
	}
	return function == "" || strings.HasPrefix(function, "runtime.")
}
