package chaos_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/redistest"
)

// leakTimeout is how long a worker's connections may take to go away.
const leakTimeout = 5 * time.Second

// worker is the process that takes locks.
type worker struct {
	order order
	guard *guard.Guard
	ids   atomic.Int64
	stop  chan struct{} // closed by the first deed that is ordered
	deed  deed          // read after stop

	instance atomic.Pointer[string]

	mu      sync.Mutex // protects what follows, and the output
	out     *json.Encoder
	numbers int64
	waiting map[int64]chan bool // for answers
}

// runWorker is a worker process from begin to end. It returns the exit code.
func runWorker(text string) int {
	w := &worker{stop: make(chan struct{}), out: json.NewEncoder(os.Stdout), waiting: make(map[int64]chan bool)}
	if err := json.Unmarshal([]byte(text), &w.order); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	redis.SetLogger(mute{})
	go w.listen(os.Stdin)
	before := goleak.IgnoreCurrent()

	closeClients, err := w.connect()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var callers sync.WaitGroup
	for i := range w.order.Callers {
		c := &caller{w: w, rng: rand.New(rand.NewPCG(w.order.Seed, uint64(i)))}
		callers.Go(c.run)
	}
	term, resign := context.WithCancel(context.Background())
	callers.Go(func() { (&caller{w: w, rng: rand.New(rand.NewPCG(w.order.Seed, 1<<34))}).lead(term) })
	<-w.stop
	if w.deed == retire {
		_ = w.guard.Close()
	}
	resign()
	callers.Wait()
	_ = w.guard.Close()
	closeClients()
	w.tell(event{Kind: finished, Instance: w.instanceID(), Wrong: leaks(before)})
	return 0
}

// connect makes the Guard.
func (w *worker) connect() (closeClients func(), err error) {
	clients := w.clients()
	rng := rand.New(rand.NewPCG(w.order.Seed, 1<<32))
	opts := []guard.Option{
		guard.Observe(observer{w: w}),
		guard.StoreTimeout(pick(rng, 500*time.Millisecond, guard.DefaultStoreTimeout)),
		guard.HandoverWindow(pick(rng, 0, guard.DefaultHandoverWindow, 50*time.Millisecond)),
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
	addrs := w.order.Addrs
	switch w.order.Topology {
	case "sentinel":
		return append(clients, redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.MasterName, SentinelAddrs: addrs, Dialer: w.dial, Protocol: w.order.Speech.Protocol,
			ReadTimeout: 500 * time.Millisecond, // as docs/production.md advises
		}))
	case "cluster":
		return append(clients, redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, Dialer: w.dial, Protocol: w.order.Speech.Protocol,
		}))
	}
	for _, addr := range addrs {
		clients = append(clients, redis.NewClient(&redis.Options{
			Addr: addr, Protocol: w.order.Speech.Protocol, TLSConfig: w.order.Speech.config(),
		}))
	}
	return clients
}

// dial goes to the worker's proxy of a server, if there is one.
func (w *worker) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	proxy := w.order.Detours[addr]
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, network, cmp.Or(proxy, addr))
	if err == nil && proxy != "" {
		conn = w.order.Speech.wrap(conn)
	}
	return conn, err
}

// listen takes commands until the driver is gone.
func (w *worker) listen(in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		if c.Do == "" {
			w.answer(c)
			continue
		}
		w.deed = c.Do
		close(w.stop)
	}
	os.Exit(3)
}

func (w *worker) answer(c command) {
	w.mu.Lock()
	waiting := w.waiting[c.Number]
	delete(w.waiting, c.Number)
	w.mu.Unlock()
	waiting <- c.Accepted
}

// tell sends an event. A pipe keeps what was written when its writer is killed.
func (w *worker) tell(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.send(e)
}

// send needs w.mu.
func (w *worker) send(e event) {
	if err := w.out.Encode(e); err != nil {
		os.Exit(3) // the driver is gone
	}
}

// ask sends an event and waits for the witness's verdict on the write.
func (w *worker) ask(e event) (accepted bool) {
	verdict := make(chan bool, 1)
	w.mu.Lock()
	w.numbers++
	e.Number = w.numbers
	w.waiting[e.Number] = verdict
	w.send(e)
	w.mu.Unlock()
	return <-verdict
}

func (w *worker) finishing() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// saw notes the id that all owners of the worker's Guard begin with.
func (w *worker) saw(owner string) {
	if w.instance.Load() == nil {
		id, _, _ := strings.Cut(owner, "-")
		w.instance.Store(&id)
	}
}

func (w *worker) instanceID() string {
	if id := w.instance.Load(); id != nil {
		return *id
	}
	return ""
}

// leaks says which goroutines are left.
func leaks(before goleak.Option) string {
	for begun := time.Now(); ; {
		err := goleak.Find(before)
		if err == nil {
			return ""
		}
		if time.Since(begun) > leakTimeout {
			return "goroutines left: " + err.Error()
		}
	}
}

type holdKey struct{}

// observer notes what calls do not return.
type observer struct {
	guard.NopObserver

	w *worker
}

func (observer) WaitEnd(ctx context.Context, _ guard.Lock, r guard.WaitResult) {
	if h, _ := ctx.Value(holdKey{}).(*hold); h != nil && r.Depth <= 1 {
		h.lease.Local, h.waited = r.Local, r.Elapsed
	}
}

func (o observer) HoldEnd(ctx context.Context, _ guard.Lock, r guard.HoldResult) {
	if h, _ := ctx.Value(holdKey{}).(*hold); h != nil && r.Err != nil && h.returned.Load() {
		o.w.tell(event{Kind: ended})
	}
}

// mute keeps go-redis from telling that its connections break.
type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }
