package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// plan is what each process is to do. It travels in the environment, which other users of the
// machine cannot read: the URL may hold a password.
type plan struct {
	Redis, Run        string
	Process           int
	Begin             time.Time     // tick 0 of process 0
	Tick              time.Duration // from one tick to the next
	Apart             time.Duration // by which the ticks of a process are later than those of the one before it
	MinHold, TTL      time.Duration
	ShortJob, LongJob time.Duration // a job lasts between these
}

const envPlan = "PERIODIC_PLAN"

// begin sets what is different in each run.
func (p *plan) begin() {
	p.Run = rand.Text()[:8]
	p.Begin = time.Now().Add(2 * p.Tick).Truncate(p.Tick)
}

// first is tick 0 of this process.
func (p plan) first() time.Time { return p.Begin.Add(time.Duration(p.Process) * p.Apart) }

// What happened to a process.
const (
	jobBegan  = "job began"
	jobEnded  = "job ended"
	termBegan = "term began"
	termEnded = "term ended"
	killed    = "killed"
)

// event is a line that a process prints.
type event struct {
	At      time.Time
	Process int
	What    string
	Tick    int           // of a job
	Late    time.Duration // since the job was due
	Fence   uint64        // of a term
}

const nobody = -1

// leader is the process that leads at the end of a log, or nobody.
func leader(log []event) int {
	who := nobody
	var since time.Time
	for _, e := range log {
		switch {
		case e.What == termBegan && e.At.After(since):
			who, since = e.Process, e.At
		case (e.What == termEnded || e.What == killed) && e.Process == who:
			who = nobody
		}
	}
	return who
}

// crew is all processes.
type crew struct {
	members []*member
	events  chan event // closed when all have ended
	err     error      // set before events is closed
}

type member struct {
	cmd   *exec.Cmd
	lines *json.Decoder
	alive io.Closer // a process ends when this is closed
	ended chan struct{}
}

// start runs this program n times more.
func (p plan) start(ctx context.Context, n int) (*crew, error) {
	c := &crew{events: make(chan event)}
	for i := range n {
		p.Process = i
		m, err := p.member(ctx)
		if err != nil {
			for i, m := range c.members {
				c.kill(i)
				_ = m.cmd.Wait()
			}
			return nil, err
		}
		c.members = append(c.members, m)
	}
	errs := make(chan error, n)
	var readers sync.WaitGroup
	for i, m := range c.members {
		readers.Go(func() {
			if err := m.read(c.events); err != nil {
				errs <- fmt.Errorf("process %d: %w", i, err)
			}
		})
	}
	go func() {
		readers.Wait()
		if len(errs) > 0 {
			c.err = <-errs
		}
		close(c.events)
	}()
	return c, nil
}

// read passes on what a process says, until it has ended.
func (m *member) read(events chan<- event) error {
	defer close(m.ended)
	for {
		var e event
		if m.lines.Decode(&e) != nil {
			break // there is no more
		}
		events <- e
	}
	err := m.cmd.Wait()
	if m.cmd.ProcessState.ExitCode() == -1 {
		return nil // a signal ended it
	}
	return err
}

func (p plan) member(ctx context.Context) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self) // killed when ctx ends
	cmd.Env = append(os.Environ(), envPlan+"="+string(env))
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &member{cmd, json.NewDecoder(out), alive, make(chan struct{})}, cmd.Start()
}

// kill ends a process without a word to it.
func (c *crew) kill(process int) event {
	e := event{At: time.Now(), Process: process, What: killed}
	_ = c.members[process].cmd.Process.Kill()
	return e
}

// stop ends all processes, the leader last: no process is to lead for a moment
// only because all others are on their way out. It returns at once.
func (c *crew) stop(leader int) {
	go func() {
		for i, m := range c.members {
			if i != leader {
				_ = m.alive.Close()
			}
		}
		for i, m := range c.members {
			if i != leader {
				<-m.ended
			}
		}
		if leader != nobody {
			_ = c.members[leader].alive.Close()
		}
	}()
}
