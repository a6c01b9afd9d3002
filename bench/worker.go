package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/internal/redistest"
)

// workerVariable marks a process as a worker. It gets its job as a line of JSON on
// standard input, says readyLine when it is set up, begins when there is another line,
// and writes its report as JSON.
const workerVariable = "REDLATCH_BENCH_WORKER"

const readyLine = "ready"

func isWorker() bool { return os.Getenv(workerVariable) != "" }

// work is the main function of a worker.
func work() int {
	if err := doJob(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

func doJob(stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(line, &j); err != nil {
		return err
	}
	run, ok := kinds[j.Kind]
	if !ok {
		return fmt.Errorf("unknown kind of job %q", j.Kind)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	redis.SetLogger(silence{}) // it logs each dial that failed
	client := j.client()
	defer func() { _ = client.Close() }()

	stopProfile := func() error { return nil }
	r, err := run(ctx, j, client, func() {
		_, err := fmt.Fprintln(stdout, readyLine)
		if err == nil {
			_, err = in.ReadBytes('\n')
		}
		if err != nil {
			os.Exit(1) // the parent is gone
		}
		go func() {
			_, _ = in.ReadByte() // ends when the other side does
			cancel()
			time.AfterFunc(5*time.Second, func() { os.Exit(1) })
		}()
		if j.Profile != "" {
			stopProfile = startProfile(j.Profile)
		}
	})
	if err = errors.Join(err, stopProfile()); err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(r)
}

// client is one of the job's server, or of the server that its sentinels know.
func (j job) client() *redis.Client {
	if len(j.Watched) > 0 {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: j.Watched})
	}
	return redis.NewClient(&redis.Options{Addr: j.Addr})
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// startProfile writes a CPU profile until the function that it returns is called.
func startProfile(path string) (stop func() error) {
	f, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		return func() error { return err }
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}
}
