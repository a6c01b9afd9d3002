package main

import (
	"fmt"
	"os"
	"strings"
)

// row is a rule that is broken by putting one text in the place of another.
type row struct {
	name     string
	file     string
	was, is  string
	tests    [][]string // arguments of go test, the nearest first
	survives string     // why nothing notices; empty if something has to
}

// readTable reads rows, as the head of table.txt describes them.
func readTable(name string) (rows []row, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var file string
	var tests [][]string
	for n, block := range strings.Split(string(text), "\n\n") {
		r := row{}
		var was, is []string
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			word, rest, _ := strings.Cut(line, " ")
			switch {
			case line == "" || word == "#":
			case word == "file":
				file, tests = rest, nil
			case word == "test":
				tests = append(tests, strings.Fields(rest))
			case word == "-":
				was = append(was, rest)
			case word == "+":
				is = append(is, rest)
			case word == "!":
				r.survives = rest
			case r.name == "":
				r.name = line
			default:
				return nil, fmt.Errorf("%s: block %d: what is %q?", name, n+1, line)
			}
		}
		if r.name == "" && was == nil {
			continue // a head
		}
		if r.name == "" || was == nil || file == "" || len(tests) == 0 {
			return nil, fmt.Errorf("%s: block %d (%q) has no name, no text, no file or no test", name, n+1, r.name)
		}
		r.file, r.tests = file, tests
		r.was, r.is = strings.Join(was, "\n"), strings.Join(is, "\n")
		rows = append(rows, r)
	}
	return rows, nil
}

// broken is the file's text with the rule broken.
func (r *row) broken(text string) (string, error) {
	if n := strings.Count(text, r.was); n != 1 {
		return "", fmt.Errorf("%s: its text is in %s %d times, not once", r.name, r.file, n)
	}
	return strings.Replace(text, r.was, r.is, 1), nil
}
