package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/redlatch/redlatch/internal/redistest"
)

// process is a worker, seen from outside.
type process struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended and all that it said is known

	mu sync.Mutex // protects in
	in io.WriteCloser
}

// startProcess starts a worker, whose events go to hear.
func startProcess(t task, hear func(event)) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	go func() {
		defer close(p.gone)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				continue
			}
			hear(e)
			if e.Kind == begun || e.Kind == wrote {
				_ = p.tell(order{Do: heard, Call: e.Call}) // a worker that is gone waits for nothing
			}
		}
		_ = p.cmd.Wait() // how it ended does not matter: it is meant to be killed
	}()
	return p, nil
}

func (p *process) tell(o order) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return json.NewEncoder(p.in).Encode(o)
}

// stop suspends the process until wake.
func (p *process) stop() error { return redistest.Stop(p.cmd.Process) }

// kill ends the process, and returns when all that it said is known.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}
