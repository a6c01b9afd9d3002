package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// workerVariable has the task of a process of this program that is a worker, as JSON.
const workerVariable = "REDLATCH_FAULTS_WORKER"

// step is what work does at a time, and cannot be ended within.
const step = 20 * time.Millisecond

// again is the pause before a caller that was refused asks again.
const again = 50 * time.Millisecond

// task is what a worker gets at its start.
type task struct {
	Library  string
	Addr     string
	Insecure bool // speak TLS without a check of the certificate
}

// order is what a worker gets later.
type order struct {
	Do     string
	Call   int
	Key    string
	Wait   time.Duration // for the lock, and for all of the work
	Work   time.Duration
	Insist bool // ask again after an error
}

// What orders are for.
const (
	take   = "take"   // take a lock and work
	cancel = "cancel" // end the context of a call
	heard  = "heard"  // the witness knows of the event that the call waits with
)

// The kinds of events.
const (
	ready    = "ready"
	asked    = "asked"
	refused  = "refused" // with an error
	begun    = "begun"   // the work; the call waits until the witness knows
	wrote    = "wrote"   // the same
	noticed  = "noticed" // the work saw its context end
	ended    = "ended"   // the work
	unlocked = "unlocked"
)

// event is what a worker sends to the witness.
type event struct {
	Call  int
	Kind  string
	Fence uint64
	Err   string
}

// worker is the process that takes locks.
type worker struct {
	library library

	mu    sync.Mutex // protects what follows
	out   *json.Encoder
	calls map[int]*running
}

// running is a call of a worker.
type running struct {
	cancel context.CancelFunc
	heard  chan struct{} // one element per event that the witness knows of
}

// work is the main function of a worker. It ends when its standard input does.
func work() int {
	var t task
	err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &t)
	if err == nil {
		redis.SetLogger(silence{}) // it logs each dial that failed
		err = t.do(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func (t task) do(in io.Reader, out io.Writer) error {
	l, err := t.open()
	if err != nil {
		return err
	}
	w := &worker{library: l, out: json.NewEncoder(out), calls: make(map[int]*running)}
	if err := w.warmUp(); err != nil {
		return err
	}
	w.tell(event{Kind: ready})
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		w.obey(o)
	}
	return lines.Err() // the process ends, and does not wait for calls that hang
}

func (w *worker) obey(o order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o.Do {
	case take:
		ctx, cancel := context.WithTimeout(context.Background(), o.Wait)
		w.calls[o.Call] = &running{cancel, make(chan struct{}, 1)}
		go w.call(ctx, w.calls[o.Call], o)
	case cancel:
		w.calls[o.Call].cancel()
	case heard:
		w.calls[o.Call].heard <- struct{}{}
	}
}

// warmUp has the connections opened and the scripts loaded.
func (w *worker) warmUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	held, err := w.library.lock(ctx, fmt.Sprintf("warm-up-%d", os.Getpid()))
	if err != nil {
		return err
	}
	return held.unlock()
}

func (w *worker) tell(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(e)
}

// call takes a lock and works under it.
func (w *worker) call(ctx context.Context, r *running, o order) {
	defer r.cancel()
	w.tell(event{Call: o.Call, Kind: asked})
	held, err := w.library.lock(ctx, o.Key)
	for err != nil {
		w.tell(event{Call: o.Call, Kind: refused, Err: nameOf(err)})
		if !o.Insist || ctx.Err() != nil {
			return
		}
		time.Sleep(again)
		held, err = w.library.lock(ctx, o.Key)
	}
	w.tell(event{Call: o.Call, Kind: begun, Fence: held.fence})
	lost := false
	for end := time.Now().Add(o.Work); !lost && time.Now().Before(end); {
		// A process that is stopped is nearly always stopped after this look, and continues with a write.
		lost = held.ctx.Err() != nil
		<-r.heard
		if lost {
			w.tell(event{Call: o.Call, Kind: noticed})
			break
		}
		time.Sleep(step)
		w.tell(event{Call: o.Call, Kind: wrote, Fence: held.fence})
	}
	if !lost {
		<-r.heard
	}
	w.tell(event{Call: o.Call, Kind: ended})
	err = held.unlock()
	w.tell(event{Call: o.Call, Kind: unlocked, Err: nameOf(err)})
}
