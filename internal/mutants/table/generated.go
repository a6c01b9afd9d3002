package table

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed generated.txt
var generated string

// Package is one for which mutants are generated.
type Package struct {
	Path     string
	Files    string            // a pattern of those of its files that are meant; empty for all
	Tests    [][]string        // arguments of go test
	Survives map[string]string // by mutant: why nothing notices
}

// Packages are those of generated.txt.
func Packages() ([]Package, error) { return readPackages(generated) }

func readPackages(text string) (all []Package, err error) {
	for n, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		id, why, survives := strings.Cut(line, " :: ")
		switch {
		case line == "" || word == "#":
		case word == "package":
			path, files, _ := strings.Cut(rest, " ")
			all = append(all, Package{Path: path, Files: files, Survives: map[string]string{}})
		case word == "test" && len(all) > 0:
			p := &all[len(all)-1]
			p.Tests = append(slices.Clip(p.Tests), strings.Fields(rest))
		case survives && len(all) > 0:
			all[len(all)-1].Survives[id] = why
		default:
			return nil, fmt.Errorf("line %d: what is %q?", n+1, line)
		}
	}
	return all, nil
}
