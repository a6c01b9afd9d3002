package chaos_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
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
	Addrs    []string          // of its own proxies, or where a client of a group begins
	Detours  map[string]string // from the addresses that a group gives to its own proxies
	Seed     uint64
	Protocol int // RESP 2 or 3
}

// event is a report of a worker to the driver: a line of JSON on its standard output.
type event struct {
	Kind     eventKind
	Lease    *lease `json:",omitempty"`
	Instance string `json:",omitempty"` // of the worker's Guard
	Wrong    string `json:",omitempty"` // what must not be
}

type eventKind string

const (
	working  eventKind = "working"  // under a lease
	left     eventKind = "left"     // the lease has ended, and its end is known
	missed   eventKind = "missed"   // a call got no lock
	finished eventKind = "finished" // the worker is about to end
)

// A command is a line that the driver writes to a worker's standard input.
const (
	finish = "finish" // take every lock once more, then end in good order
	retire = "retire" // close the Guard at once, and end
)

// worker is the process that takes locks.
type worker struct {
	order   order
	guard   *guard.Guard
	ids     atomic.Int64
	stop    chan struct{} // closed when command is known
	command string

	mu       sync.Mutex // protects what follows
	out      *json.Encoder
	instance string // what all owners of the Guard begin with
}

// runWorker is a worker process from begin to end. It returns the exit code.
func runWorker(text string) int {
	w := &worker{stop: make(chan struct{}), out: json.NewEncoder(os.Stdout)}
	err := json.Unmarshal([]byte(text), &w.order)
	logging.Disable() // connections break all the time
	go w.listen()
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
	<-w.stop
	if w.command == retire {
		_ = w.guard.Close()
	}
	all.Wait()
	_ = w.guard.Close()
	closeClients()
	w.send(event{Kind: finished, Instance: w.instance, Wrong: leaks(before)})
	return 0
}

// connect makes the Guard.
func (w *worker) connect() (closeClients func(), err error) {
	clients := w.clients()
	rng := rand.New(rand.NewPCG(w.order.Seed, 1<<32))
	opts := []guard.Option{
		guard.Observe(observer{}),
		guard.StoreTimeout(pick(rng, 500*time.Millisecond, 2*time.Second)),
		guard.HandoverWindow(pick(rng, 0, 5*time.Millisecond, 50*time.Millisecond)),
	}
	if w.order.Topology == "sentinel" && chance(rng, 30) {
		opts = append(opts, guard.Replicas(1, 100*time.Millisecond))
	}
	closeStore := func() error { return nil }
	if w.order.Topology == "quorum" {
		var store *quorum.Store
		if store, err = quorum.New(clients); err == nil {
			closeStore = store.Close
			w.guard, err = guard.NewWithStore(store, opts...)
		}
	} else {
		w.guard, err = guard.New(clients[0], opts...)
	}
	return func() {
		_ = closeStore()
		for _, c := range clients {
			_ = c.Close()
		}
	}, err
}

func (w *worker) clients() (clients []redis.UniversalClient) {
	addrs, protocol := w.order.Addrs, w.order.Protocol
	switch w.order.Topology {
	case "sentinel":
		return append(clients, redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.MasterName, SentinelAddrs: addrs, Dialer: w.dial, Protocol: protocol,
			ReadTimeout: 500 * time.Millisecond, // as docs/operate/redis.md advises
		}))
	case "cluster":
		return append(clients, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Dialer: w.dial, Protocol: protocol}))
	}
	for _, addr := range addrs {
		clients = append(clients, redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol}))
	}
	return clients
}

// dial goes to the worker's proxy of a server, if there is one.
func (w *worker) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	return d.DialContext(ctx, network, cmp.Or(w.order.Detours[addr], addr))
}

// listen takes a command, and ends the process when the driver is gone.
func (w *worker) listen() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); close(w.stop) {
		w.command = lines.Text()
	}
	os.Exit(3)
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
	w.send(event{Kind: missed, Wrong: fmt.Sprintf(format, args...)})
}

// leaks says which goroutines are left. Connections may take a while to go away.
func leaks(before goleak.Option) string {
	for begun := time.Now(); ; {
		if err := goleak.Find(before); err == nil {
			return ""
		} else if time.Since(begun) > 5*time.Second {
			return "goroutines left: " + err.Error()
		}
	}
}

type holdKey struct{}

// observer notes which holds were handed over within the process.
type observer struct{ guard.NopObserver }

func (observer) WaitEnd(ctx context.Context, _ guard.Lock, r guard.WaitResult) {
	ctx.Value(holdKey{}).(*hold).lease.Local = r.Local
}

// noteOwner notes the id that all owners of the worker's Guard begin with.
func (w *worker) noteOwner(owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.instance, _, _ = strings.Cut(owner, "-")
}
