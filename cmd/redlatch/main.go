// Command redlatch runs commands under a distributed lock in Redis, shows who holds a lock and
// who waits, ends holds, and deletes records.
//
//	redlatch run nightly-report ./report.sh
//	redlatch ls
//	redlatch revoke order:42
//
// It finds Redis by --redis or REDIS_URL. See docs/reference/command.md, or redlatch --help.
package main

import (
	"context"
	"os"

	"github.com/redis/go-redis/v9"
)

// quiet drops the log of go-redis: the errors have the same text.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(quiet{})
	p := &program{}
	cmd, err := p.root().ExecuteContextC(context.Background())
	os.Exit(p.report(cmd, err))
}
