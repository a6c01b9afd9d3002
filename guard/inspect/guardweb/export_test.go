package guardweb

// Sizes tells how much a History remembers.
func Sizes(h *History) (names, events int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.names), len(h.events)
}
