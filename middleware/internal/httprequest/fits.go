package httprequest

import (
	"fmt"
	"strings"

	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// Fits says which of a template's placeholders no request of a route can answer. has says
// which path values the route has.
func Fits(placeholders []string, has func(name string) bool) error {
	for _, placeholder := range placeholders {
		var err error
		switch name, isPath := PathValueOf(placeholder); {
		case isPath && !has(name):
			err = keytemplate.Unfit("the route has no such path value")
		case !isPath && has(placeholder):
			err = unfitWord(placeholder)
		}
		if err != nil {
			return fmt.Errorf("placeholder {%s}: %w", placeholder, err)
		}
	}
	return nil
}

// PathValueOf gives the name of the path value that a placeholder stands for, if it stands
// for one.
func PathValueOf(placeholder string) (name string, ok bool) {
	kind, name, hasKind := strings.Cut(placeholder, ":")
	if hasKind {
		return name, kind == "path"
	}
	_, isWord := words[placeholder]
	return placeholder, !isWord
}
