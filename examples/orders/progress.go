package main

import (
	"io"
	"os"
	"sync"
	"time"
)

// On a terminal one line is written over and over; elsewhere each is a new one.
const (
	terminalInterval = 100 * time.Millisecond
	lineInterval     = time.Second
)

// showProgress writes how far b is until the function that it returns is called.
func showProgress(w io.Writer, b *burst) (stop func()) {
	interval, before, after := lineInterval, "", "\n"
	if isTerminal(w) {
		interval, before, after = terminalInterval, "\r", "\x1b[K"
	}
	show := func() {
		t, total := b.app.tally, b.app.opts.orders*b.app.opts.attempts
		charged, _ := b.app.service.gateway.counts()
		say(w, "%s%d of %d attempts done, %d of %d orders charged, %d answers busy%s",
			before, t.done.Load(), total, charged, b.app.opts.orders, t.busy.Load(), after)
	}

	quit := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show()
			case <-quit:
				show()
				return
			}
		}
	})
	return func() {
		close(quit)
		writer.Wait()
		if before != "" {
			say(w, "\n")
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
