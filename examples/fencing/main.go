// Command fencing shows what a lock cannot do, and what a fencing token is for. A process
// that sells the last pieces of a stock is stopped (SIGSTOP) between reading how many are
// left and writing how many remain, for longer than its lock lives. Another process gets
// the lock and sells. Then the first one goes on, and writes. The row refuses it:
//
//	go run ./examples/fencing
//	go run ./examples/fencing -unfenced     # the same without the fence: a sale is gone
//	DATABASE_URL=postgres://… REDIS_URL=redis://… go run ./examples/fencing
//
// Without DATABASE_URL it uses SQLite in a temporary file, without REDIS_URL a Redis of its
// own.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/redlatch/redlatch/guard/guardtest"
)

const pieces = 10

func main() {
	if isWorker() {
		os.Exit(work(os.Stdin, os.Stdout))
	}
	unfenced := flag.Bool("unfenced", false, "write without showing the fence")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Getenv("REDIS_URL"), os.Getenv("DATABASE_URL"), *unfenced)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, redisURL, databaseURL string, unfenced bool) error {
	if redisURL == "" {
		server, err := guardtest.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		redisURL = "redis://" + server.Addr()
	}
	_, err := show(ctx, redisURL, databaseURL, unfenced, os.Stdout)
	return err
}

// show lets two processes sell a piece each, the first with a pause, and returns how many
// sales both of them believe in, and how many pieces are left.
func show(ctx context.Context, redisURL, databaseURL string, unfenced bool, out io.Writer) (end outcome, err error) {
	if databaseURL == "" {
		dir, err := os.MkdirTemp("", "fencing-")
		if err != nil {
			return end, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		databaseURL = sqliteURL(dir)
	}
	s, err := openStock(ctx, databaseURL)
	if err != nil {
		return end, err
	}
	defer s.Close()
	id, err := s.create(ctx, pieces)
	if err != nil {
		return end, err
	}
	defer func() { _ = s.remove(context.WithoutCancel(ctx), id) }()

	job := job{redis: redisURL, database: databaseURL, id: id, unfenced: unfenced}
	if end.sold, err = race(ctx, job, out); err != nil {
		return end, err
	}
	end.left, end.fence, err = s.look(ctx, id)
	_, _ = fmt.Fprintf(out, "%d pieces at first, %d sold, %d left: %s\n", pieces, end.sold, end.left, end.verdict())
	return end, err
}

// outcome is what is known at the end.
type outcome struct {
	sold, left int
	fence      uint64
}

func (o outcome) verdict() string {
	if o.sold+o.left == pieces {
		return "the books are right"
	}
	return "the books are WRONG"
}

// race has the first process stopped while the second one sells.
func race(ctx context.Context, j job, out io.Writer) (sold int, err error) {
	first, err := j.start(ctx, "first", out)
	if err != nil {
		return 0, err
	}
	defer first.end()
	if err := first.await(hasRead); err != nil {
		return 0, err
	}
	if err := first.pause(); err != nil {
		return 0, err
	}
	_, _ = fmt.Fprintln(out, "first   is stopped; its lock lapses")

	second, err := j.start(ctx, "second", out)
	if err != nil {
		return 0, err
	}
	defer second.end()
	for _, p := range []*process{second, first} { // the first one writes last
		if err := p.goOn(); err != nil {
			return sold, err
		}
		done, err := p.sold()
		if err != nil {
			return sold, err
		}
		if done {
			sold++
		}
	}
	return sold, nil
}
