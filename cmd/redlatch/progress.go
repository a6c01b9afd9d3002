//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/inspect"
)

// progress shows a user at a terminal how long run has waited.
type progress struct {
	terminal  io.Writer
	width     int
	inspector *inspect.Inspector
	key       string
	instance  string // ours
}

// newProgress returns nil if standard error is not a terminal.
func (r *run) newProgress(instance string) *progress {
	width := terminalWidth(os.Stderr)
	if width == 0 || r.noWait {
		return nil
	}
	return &progress{os.Stderr, width, r.inspector, r.key, instance}
}

// show updates one line until ctx ends. Then it removes the line.
func (w *progress) show(ctx context.Context) {
	if w == nil {
		return
	}
	begun, written := time.Now(), false
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if written {
				_, _ = fmt.Fprint(w.terminal, "\r\x1b[K")
			}
			return
		case <-tick.C:
		}
		line := []rune(w.line(ctx, time.Since(begun)))
		if len(line) >= w.width {
			line = append(line[:max(0, w.width-2)], '…')
		}
		_, _ = fmt.Fprintf(w.terminal, "\r\x1b[K%s", string(line))
		written = true
	}
}

// line omits facts that Redis does not return to this user.
func (w *progress) line(ctx context.Context, waited time.Duration) string {
	line := fmt.Sprintf("redlatch: waiting for %s, %v", visible(w.key), waited.Round(time.Second))
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	info, err := w.inspector.Get(ctx, w.key)
	if err != nil {
		return line
	}
	place := slices.IndexFunc(info.Waiting, func(other inspect.Waiter) bool { return other.Instance == w.instance })
	if place >= 0 {
		line += fmt.Sprintf("; %d of %d in the queue", place+1, info.Queued)
	}
	if n := len(info.Holders); n > 1 {
		return line + fmt.Sprintf("; %d hold it", n)
	}
	for _, h := range info.Holders {
		line += fmt.Sprintf("; held by %s for %s", visible(h.Instance), age(info.Now, h.Since))
		if h.Metadata != "" {
			line += ": " + visible(h.Metadata)
		}
		line += mode(h.Limit)
	}
	return line
}
