package guard

// tenureHeap orders tenures by when the watchdog has to look at them (container/heap).
type tenureHeap []*tenure

func (h tenureHeap) Len() int           { return len(h) }
func (h tenureHeap) Less(i, j int) bool { return h[i].next() < h[j].next() }

func (h tenureHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for container/heap.
func (h *tenureHeap) Push(x any) {
	t := x.(*tenure)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop is for container/heap.
func (h *tenureHeap) Pop() any {
	old := *h
	last := len(old) - 1
	t := old[last]
	old[last] = nil
	*h = old[:last]
	t.index = -1
	return t
}
