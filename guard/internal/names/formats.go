package names

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// MaxFormats is how many formats become names. A program writes few. One that builds its
// formats from values must not make a new metric of each.
const MaxFormats = 256

// Formats are those that became names. The zero value knows none. Its methods may be called
// from many goroutines.
type Formats struct {
	mu    sync.Mutex
	known atomic.Pointer[map[string]struct{}] // replaced, never changed
}

// Name gives the name that a format makes: itself, if it leaves something to fill in, and is
// one of the first MaxFormats. Else it is "". A text without a verb may have a value in it.
func (f *Formats) Name(format string) string {
	if strings.Contains(format, "%") && f.add(format) {
		return format
	}
	return ""
}

// add says whether a format is among the known ones, after adding it if there is room.
func (f *Formats) add(format string) bool {
	known, isKnown := f.find(format)
	if isKnown || len(known) >= MaxFormats {
		return isKnown
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known, isKnown = f.find(format)
	if isKnown || len(known) >= MaxFormats {
		return isKnown
	}
	more := maps.Clone(known)
	if more == nil {
		more = make(map[string]struct{})
	}
	more[format] = struct{}{}
	f.known.Store(&more)
	return true
}

func (f *Formats) find(format string) (known map[string]struct{}, isKnown bool) {
	if p := f.known.Load(); p != nil {
		known = *p
	}
	_, isKnown = known[format]
	return known, isKnown
}
