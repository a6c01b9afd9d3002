package names

import (
	"maps"
	"regexp"
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
	names atomic.Pointer[map[string]string] // by format; replaced, never changed
}

// verb is what fmt fills in: flags, width, precision and argument's index, then a letter.
var verb = regexp.MustCompile(`%[^a-zA-Z%]*[a-zA-Z]|%%`)

// Name gives the name that a format makes: its text with a * for each verb, if it has one and is
// one of the first MaxFormats. Else it is "". A text without a verb may have a value in it.
func (f *Formats) Name(format string) string {
	if !strings.Contains(format, "%") {
		return ""
	}
	if name, known := f.load()[format]; known {
		return name
	}
	return f.add(format)
}

// add gives a format its name if there is room.
func (f *Formats) add(format string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := f.load()
	if name, known := names[format]; known || len(names) >= MaxFormats {
		return name
	}
	names = maps.Clone(names)
	if names == nil {
		names = make(map[string]string)
	}
	names[format] = nameOf(format)
	f.names.Store(&names)
	return names[format]
}

func (f *Formats) load() map[string]string {
	if names := f.names.Load(); names != nil {
		return *names
	}
	return nil
}

// nameOf is "" for a format that fills nothing in.
func nameOf(format string) string {
	filled := false
	name := verb.ReplaceAllStringFunc(format, func(v string) string {
		if v == "%%" {
			return "%"
		}
		filled = true
		return "*"
	})
	if !filled {
		return ""
	}
	return name
}
