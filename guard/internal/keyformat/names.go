package keyformat

import (
	"regexp"
	"strings"
	"sync"
)

// MaxNames is how many formats become names. A program has few formats, unless it builds them from
// values: such formats must not make a new metric each.
const MaxNames = 256

// Names has the names of locks by format. The zero value is empty and ready to use, by many
// goroutines.
type Names struct {
	mu    sync.Mutex        // protects what follows
	names map[string]string // by format
}

// verb is what fmt fills in: flags, width, precision and argument's index, then a letter.
var verb = regexp.MustCompile(`%[^a-zA-Z%]*[a-zA-Z]|%%`)

// Name gives the name that a format makes: its text with a * for each verb, if it has one and is
// one of the first MaxNames. Else it is "". A text without a verb may have a value in it.
func (n *Names) Name(format string) string {
	if !strings.Contains(format, "%") {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	name, known := n.names[format]
	if known || len(n.names) >= MaxNames {
		return name
	}
	if n.names == nil {
		n.names = make(map[string]string)
	}
	name = nameOf(format)
	n.names[format] = name
	return name
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
