// Command picture draws the pictures of the README into docs:
//
//	go run ./docs/picture
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// pictures are what it draws, by file.
var pictures = map[string]func() string{
	"problem.svg": problem,
	"waiting.svg": waiting,
}

func main() {
	for name, draw := range pictures {
		if err := os.WriteFile(filepath.Join("docs", name), []byte(draw()), 0o644); err != nil { //nolint:gosec // public
			_, _ = fmt.Fprintln(os.Stderr, "picture:", err)
			os.Exit(1)
		}
	}
}

// Where the lanes are.
const (
	processA = 200
	redis    = 450
	processB = 700
)

// waiting is the way of one lock from a process to another.
func waiting() string {
	c := newCanvas(900, 600, "How waiting works")
	c.lane(processA, "process A", ours)
	c.lane(redis, "Redis", plain)
	c.lane(processB, "process B", theirs)

	c.arrow(90, processA, redis, "acquire")
	c.arrow(115, redis, processA, "held, fence 7")
	c.bar(processA, 115, 215, ours)
	c.note(processA, 135, "caller 1 works")

	c.arrow(140, processB, redis, "acquire")
	c.arrow(165, redis, processB, "busy: first in the queue")
	c.note(processB, 190, "3 callers wait,")
	c.note(processB, 206, "1 claim waits for all")

	c.bar(processA, 219, 300, ours)
	c.note(processA, 239, "caller 2 works")
	c.aside(processA, 257, "passed on in memory,")
	c.aside(processA, 272, "for up to 5 ms")

	c.arrow(310, processA, redis, "release")
	c.event(redis, 340, "the same script grants the lock to B")
	c.arrow(370, redis, processB, "message: your turn")
	c.arrow(400, processB, redis, "acquire")
	c.arrow(425, redis, processB, "held, fence 9")
	c.bar(processB, 425, 525, theirs)
	c.note(processB, 445, "its callers work,")
	c.note(processB, 461, "one after another")

	c.aside(processA, 400, "if more callers wait here:")
	c.aside(processA, 415, "the release queues their")
	c.aside(processA, 430, "claim, behind all others")

	c.footer(560, "Nobody polls for a turn. If a message is lost or a holder dies,")
	c.footer(580, "the first two claims ask once a second, those behind them less often.")
	return c.String()
}
