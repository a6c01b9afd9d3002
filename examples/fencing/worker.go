package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guardsql"
)

const (
	ttl      = time.Second
	patience = 30 * time.Second // longer than anything here takes
)

// The messages from and to a worker.
const (
	hasRead = "has read"
	hasSold = "has sold"
	refused = "was refused"
)

// isWorker distinguishes the worker processes from the process that starts them.
func isWorker() bool { return os.Getenv(envID) != "" }

// work sells a piece under the lock, and waits for a line before it writes.
func work(in io.Reader, out io.Writer) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	say := func(what string, args ...any) { _, _ = fmt.Fprintf(out, what+"\n", args...) }
	err := sell(ctx, jobFromEnv(), bufio.NewReader(in), say)
	switch {
	case errors.Is(err, guardsql.ErrStale):
		say(refused+": %q", err)
	case err != nil && !errors.Is(err, guard.ErrLost):
		say("failed: %q", err)
		return 1
	default: // the lock may be lost, but the database has accepted the write
		say(hasSold)
	}
	return 0
}

func sell(ctx context.Context, j job, in *bufio.Reader, say func(what string, args ...any)) error {
	opts, err := redis.ParseURL(j.redis)
	if err != nil {
		return errors.New("REDIS_URL is not the URL of a Redis") // err has the password in it
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	g, err := guard.New(rdb, guard.TTL(ttl), guard.Prefix("fencing"))
	if err != nil {
		return err
	}
	defer g.Close()
	s, err := openStock(ctx, j.database)
	if err != nil {
		return err
	}
	defer s.Close()

	return g.WithLock(ctx, guard.Key("stock:"+j.id), func(ctx context.Context) error {
		read, write := s.read, s.write
		if j.naive {
			read, write = s.look, s.writeNaively
		}
		left, err := read(ctx, j.id)
		if err != nil {
			return err
		}
		say(hasRead+" that %d are left", left)

		// ctx is alive here. Whatever the process checks, it may be stopped between its check and its write.
		// WithoutCancel makes that happen each time.
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		return write(context.WithoutCancel(ctx), j.id, left-1)
	})
}
