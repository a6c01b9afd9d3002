package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/redistest"
)

// orderEnv holds the order of a worker process; without it, the test binary tests.
const orderEnv = "REDLATCH_CHAOS_WORKER"

// order is what a worker gets when it starts.
type order struct {
	Topology string
	Addrs    []string          // where a client begins
	Detours  map[string]string // from the addresses of the servers to the worker's own proxies
	Seed     uint64
	Protocol int // RESP 2 or 3
}

// event is a report of a worker to the driver: a line of JSON on its standard output. It has a lease, which has an
// outcome if it has ended, or is about a call that got no lock.
type event struct {
	Lease *lease `json:",omitempty"`
	Wrong string `json:",omitempty"` // what must not be
}

// worker is the process that takes locks.
type worker struct {
	order  order
	guard  *guard.Guard
	ids    atomic.Int64
	owners sync.Map      // of the locks that it held
	stop   chan struct{} // closed when the faults are over

	mu  sync.Mutex // protects what follows
	out *json.Encoder
}

// runWorker is a worker process from begin to end. It returns the exit code.
func runWorker(text string) int {
	w := &worker{stop: make(chan struct{}), out: json.NewEncoder(os.Stdout)}
	err := json.Unmarshal([]byte(text), &w.order)
	logging.Disable() // connections break all the time
	before := goleak.IgnoreCurrent()
	var closeClients func()
	if err == nil {
		closeClients, err = w.connect()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var all sync.WaitGroup
	for i := range uint64(callers) {
		all.Go((&caller{w: w, rng: rand.New(rand.NewPCG(w.order.Seed, i))}).run)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // its end says that the faults are over, or that the driver is gone
	close(w.stop)
	all.Wait()
	_ = w.guard.Close()
	closeClients()
	w.send(event{Wrong: leaks(before)})
	return 0
}

// connect makes the Guard, and a function that closes what it uses.
func (w *worker) connect() (closeAll func(), err error) {
	rng := rand.New(rand.NewPCG(w.order.Seed, 1<<32))
	opts := []guard.Option{
		guard.StoreTimeout(pick(rng, 500*time.Millisecond, 2*time.Second)),
		guard.HandoverWindow(pick(rng, 0, 5*time.Millisecond, 50*time.Millisecond)),
	}
	client := func(addrs ...string) redis.UniversalClient {
		o := &redis.UniversalOptions{Addrs: addrs, Dialer: w.dial, Protocol: w.order.Protocol}
		if w.order.Topology == "sentinel" {
			o.MasterName, o.ReadTimeout = redistest.MasterName, 500*time.Millisecond // as docs/operate/redis.md advises
		}
		return redis.NewUniversalClient(o)
	}
	if w.order.Topology != "quorum" {
		if w.order.Topology == "sentinel" && chance(rng, 30) {
			opts = append(opts, guard.Replicas(1, 100*time.Millisecond))
		}
		c := client(w.order.Addrs...)
		w.guard, err = guard.New(c, opts...)
		return func() { _ = c.Close() }, err
	}
	var clients []redis.UniversalClient
	for _, addr := range w.order.Addrs {
		clients = append(clients, client(addr))
	}
	store, err := quorum.New(clients)
	if err == nil {
		w.guard, err = guard.NewWithStore(store, opts...)
	}
	return func() {
		_ = store.Close()
		for _, c := range clients {
			_ = c.Close()
		}
	}, err
}

// dial goes to the worker's proxy of a server, if there is one.
func (w *worker) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	return d.DialContext(ctx, network, cmp.Or(w.order.Detours[addr], addr))
}

// send sends an event. A pipe keeps what was written when its writer is killed.
func (w *worker) send(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.out.Encode(e); err != nil {
		os.Exit(3) // the driver is gone
	}
}

func (w *worker) reportWrong(format string, args ...any) {
	w.send(event{Wrong: fmt.Sprintf(format, args...)})
}

// leaks says which goroutines are left. Connections may take a while to go away.
func leaks(before goleak.Option) string {
	var err error
	for begun := time.Now(); time.Since(begun) < 5*time.Second; {
		if err = goleak.Find(before); err == nil {
			return ""
		}
	}
	return "goroutines left: " + err.Error()
}
