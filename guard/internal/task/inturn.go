package task

import (
	"sync"
	"sync/atomic"
	"time"
)

// InTurn calls do for 0 to n-1, once each and one after another, and returns when all are done.
// What takes longer than patience, all together, does not keep the rest: it begins beside it, on
// goroutines of the group. Without patience all begin at once.
func (b *Group) InTurn(n int, patience time.Duration, do func(i int)) {
	begun := make([]atomic.Bool, n)
	var all sync.WaitGroup
	all.Add(n + 1)
	begin := func(i int) {
		if begun[i].CompareAndSwap(false, true) {
			defer all.Done()
			do(i)
		}
	}
	late := time.AfterFunc(patience, func() {
		defer all.Done()
		for i := range n {
			b.Go(func() { begin(i) }) // of a closed group, the caller does it
		}
	})
	for i := range n {
		begin(i)
	}
	if late.Stop() {
		all.Done()
	}
	all.Wait()
}
