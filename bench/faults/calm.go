package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	pulse    = 10 * time.Millisecond
	mostLate = ttl / 20 // a pulse in a round that counts
	attempts = 6        // of a round
)

var errBusy = errors.New("the machine is too busy to tell what faults do from what it does itself")

// pulses returns the longest delay of a timer since it was called.
func pulses() (latest func() time.Duration) {
	var worst atomic.Int64
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			from := time.Now()
			select {
			case <-time.After(pulse):
				worst.Store(max(worst.Load(), int64(time.Since(from)-pulse)))
			case <-end:
				return
			}
		}
	}()
	return func() time.Duration {
		close(end)
		<-ended
		return time.Duration(worst.Load())
	}
}

// playCalmly plays a round until the machine had time for it.
func (sc *scenario) playCalmly(o options) (map[string]verdict, error) {
	for range attempts {
		latest := pulses()
		verdicts, err := sc.play(o)
		if latest() <= mostLate {
			return verdicts, err
		}
	}
	return nil, fmt.Errorf("%s: %w", sc.name, errBusy)
}
