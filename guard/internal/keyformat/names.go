package keyformat

import (
	"maps"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
)

// MaxNames is how many formats become names. A program has few formats, unless it builds them from
// values: such formats must not make a new metric each.
const MaxNames = 256

// Names has the names of locks by format. The zero value is empty and ready to use, by many
// goroutines.
type Names struct {
	mu    sync.Mutex
	names atomic.Pointer[map[string]string] // by format; replaced, never changed
}

// verb is what fmt fills in: flags, width, precision and argument's index, then a letter.
var verb = regexp.MustCompile(`%[^a-zA-Z%]*[a-zA-Z]|%%`)

// Name gives the name that a format makes: its text with a * for each verb, if it has one and is
// one of the first MaxNames. Else it is "". A text without a verb may have a value in it.
func (n *Names) Name(format string) string {
	if !strings.Contains(format, "%") {
		return ""
	}
	if name, known := n.load()[format]; known {
		return name
	}
	return n.add(format)
}

// add gives a format its name if there is room.
func (n *Names) add(format string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	names := n.load()
	if name, known := names[format]; known || len(names) >= MaxNames {
		return name
	}
	names = maps.Clone(names)
	if names == nil {
		names = make(map[string]string)
	}
	names[format] = nameOf(format)
	n.names.Store(&names)
	return names[format]
}

func (n *Names) load() map[string]string {
	if names := n.names.Load(); names != nil {
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
