package watchdog

// grantHeap orders grants by when the watchdog has to look at them (container/heap).
type grantHeap []*Grant

func (h grantHeap) Len() int           { return len(h) }
func (h grantHeap) Less(i, j int) bool { return h[i].next() < h[j].next() }

func (h grantHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for container/heap.
func (h *grantHeap) Push(x any) {
	t := x.(*Grant)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop is for container/heap.
func (h *grantHeap) Pop() any {
	old := *h
	last := len(old) - 1
	t := old[last]
	old[last] = nil
	*h = old[:last]
	t.index = -1
	return t
}
