// Command fencing shows what a lock cannot do, and how a fencing token helps. A process reads how many
// pieces are in stock and is stopped (SIGSTOP) for longer than its lock lives. A second process gets
// the lock and reads the same number. Then the first process is resumed. Both want to sell a piece,
// and to write what remains. The database refuses the first process, whichever of them writes first:
//
//	go run ./examples/fencing
//	go run ./examples/fencing -naive     # compares the token only when it writes: a sale is lost
//	DATABASE_URL=postgres://… REDIS_URL=redis://… go run ./examples/fencing
//
// Without DATABASE_URL it uses SQLite in a temporary file, without REDIS_URL an embedded Redis.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/redlatch/redlatch/guard/embedded"
)

const pieces = 10

func main() {
	if isWorker() {
		os.Exit(work(os.Stdin, os.Stdout))
	}
	naive := flag.Bool("naive", false, "compare the token only when writing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Getenv("REDIS_URL"), os.Getenv("DATABASE_URL"), *naive)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, redisURL, databaseURL string, naive bool) error {
	if redisURL == "" {
		server, err := embedded.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		redisURL = "redis://" + server.Addr()
	}
	if databaseURL == "" {
		dir, err := os.MkdirTemp("", "fencing-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		databaseURL = sqliteURL(dir)
	}
	for _, order := range []order{stoppedWritesLast, stoppedWritesFirst} {
		if _, err := show(ctx, redisURL, databaseURL, naive, order, os.Stdout); err != nil {
			return err
		}
	}
	return nil
}

// order is who writes first: the process that was stopped, or the later holder.
type order string

const (
	stoppedWritesLast  order = "the stopped process writes last"
	stoppedWritesFirst order = "the stopped process writes first"
)

// show lets two processes sell a piece each, and returns how many were sold and how many are left.
func show(ctx context.Context, redisURL, databaseURL string, naive bool, order order, out io.Writer) (end outcome, err error) {
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

	_, _ = fmt.Fprintln(out, "==", order)
	if end.sold, err = race(ctx, job{redis: redisURL, database: databaseURL, id: id, naive: naive}, order, out); err != nil {
		return end, err
	}
	end.left, err = s.look(ctx, id)
	_, _ = fmt.Fprintf(out, "%d pieces at first, %d sold, %d left: %s\n", pieces, end.sold, end.left, end.verdict())
	return end, err
}

type outcome struct{ sold, left int }

func (o outcome) verdict() string {
	if o.sold+o.left == pieces {
		return "the books are right"
	}
	return "the books are WRONG"
}

// race stops the first process until the second one has read, and then lets both write.
func race(ctx context.Context, j job, order order, out io.Writer) (sold int, err error) {
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
	if err := second.await(hasRead); err != nil {
		return 0, err
	}
	writers := []*process{second, first}
	if order == stoppedWritesFirst {
		writers = []*process{first, second}
	}
	for _, p := range writers {
		done, err := p.sell()
		if err != nil {
			return sold, err
		}
		if done {
			sold++
		}
	}
	return sold, nil
}
