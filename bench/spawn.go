package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// spawnGrace is how much longer than its job a worker may take.
const spawnGrace = time.Minute

// outcome is what came of a job.
type outcome struct {
	job
	reports   []report      // of each process
	sent      int64         // commands for locks, warm-up included
	serverCPU time.Duration // used by redis-server meanwhile
	clientCPU time.Duration // used by the processes in their whole lives
}

// bench is one run of this program.
type bench struct {
	options
	client *redis.Client
	addr   string // of redis-server, as clients are to reach it
}

// run has so many processes do a job at the same time, on an empty Redis.
func (b *bench) run(ctx context.Context, j job, processes int) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.Warmup+j.Length+spawnGrace)
	defer cancel()
	if err := b.client.FlushAll(ctx).Err(); err != nil {
		return o, err
	}
	j.Addr = b.addr
	jobs := slices.Repeat([]job{j}, processes)
	workers, err := b.startWorkers(ctx, jobs)
	defer killAll(workers)
	if err != nil {
		return o, err
	}
	before, err := readStats(ctx, b.client)
	if err != nil {
		return o, err
	}
	for _, w := range workers {
		w.begin()
	}
	o = outcome{job: j, reports: make([]report, processes)}
	for i, w := range workers {
		if o.reports[i], err = w.report(); err != nil {
			return o, err
		}
	}
	after, err := readStats(ctx, b.client)
	for _, w := range workers {
		o.clientCPU += w.cpu()
	}
	o.sent = after.sent(j.Library) - before.sent(j.Library)
	o.serverCPU = after.cpu - before.cpu
	return o, errors.Join(err, o.failure())
}

// startWorkers starts a process for each job, and returns when all are set up. Who
// started them ends them, whatever comes.
func (b *bench) startWorkers(ctx context.Context, jobs []job) (workers []*worker, err error) {
	for i, j := range jobs {
		j.Index = i
		if b.profiles != "" {
			j.Profile = filepath.Join(b.profiles, profileName(j))
		}
		w, err := startWorker(ctx, j)
		if err != nil {
			return workers, err
		}
		workers = append(workers, w)
	}
	for i, w := range workers {
		if err := w.awaitReady(); err != nil {
			return workers, fmt.Errorf("%s: %w", jobs[i].Library, err)
		}
	}
	return workers, nil
}

func killAll(workers []*worker) {
	for _, w := range workers {
		w.kill()
	}
}

// during has a process do each job while something happens to its servers. It ends them
// when that has ended.
func (b *bench) during(ctx context.Context, jobs []job, happening func() error) ([]report, error) {
	workers, err := b.startWorkers(ctx, jobs)
	defer killAll(workers)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		w.begin()
	}
	if err := happening(); err != nil {
		return nil, err
	}
	for _, w := range workers {
		w.end()
	}
	reports := make([]report, len(jobs))
	for i, w := range workers {
		if reports[i], err = w.report(); err != nil {
			return nil, fmt.Errorf("%s: %w", jobs[i].Library, err)
		}
	}
	return reports, nil
}

func profileName(j job) string {
	return fmt.Sprintf("%s-%s-%dx%d-%d.pprof", j.Kind, j.Library, j.Callers, max(j.Instances, 1), j.Index)
}

// worker is a process of this program that does a job.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startWorker(ctx context.Context, j job) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), workerVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w := &worker{cmd, in, bufio.NewReader(out)}
	return w, json.NewEncoder(in).Encode(j)
}

func (w *worker) awaitReady() error {
	line, err := w.out.ReadString('\n')
	if err == nil && strings.TrimSpace(line) != readyLine {
		err = fmt.Errorf("worker said %q", line)
	}
	if err != nil {
		return fmt.Errorf("worker was not set up: %w", err)
	}
	return nil
}

// begin lets the worker begin. Its report shows whether it did.
func (w *worker) begin() { _, _ = io.WriteString(w.in, "go\n") }

// end makes the worker end its job.
func (w *worker) end() { _ = w.in.Close() }

// report waits for the worker's report and its end.
func (w *worker) report() (r report, err error) {
	if err := json.NewDecoder(w.out).Decode(&r); err != nil {
		return r, fmt.Errorf("worker without a report: %w", err)
	}
	return r, w.cmd.Wait()
}

// cpu is what the worker used. It has ended.
func (w *worker) cpu() time.Duration {
	return w.cmd.ProcessState.UserTime() + w.cmd.ProcessState.SystemTime()
}

// kill ends a worker that is still there.
func (w *worker) kill() {
	if w != nil && w.cmd.ProcessState == nil {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	}
}
