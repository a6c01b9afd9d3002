// Package table knows the rules that make mutants breaks, one at a time.
package table

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed table.txt
var text string

// Rows are those of table.txt.
func Rows() ([]Row, error) { return read(text) }

// Row is a rule that is broken by putting one text in the place of another.
type Row struct {
	Name     string
	File     string // from the root of the repository
	Was, Is  string
	Tests    [][]string // arguments of go test, the nearest first
	Says     string     // what the noticing test has to say; empty if it need not say anything
	Chaos    string     // the topology of package chaos on which a row is tried; empty for most
	Survives string     // why nothing notices; empty if something has to
}

// Replays are where a TestReplay is, and TestBrokenScripts, which breaks all rows whose nearest test it is.
var Replays = []string{"./guard/model", "./guard/model/limits", "./guard/model/records"}

// Replayed is the one of the Replays that breaks the row, if one does.
func (r *Row) Replayed() string {
	where, is := strings.CutSuffix(strings.Join(r.Tests[0], " "), " -run ^TestReplay$")
	if !is || !strings.HasSuffix(r.File, ".lua") || !slices.Contains(Replays, where) {
		return ""
	}
	return where
}

// read reads rows, as the head of table.txt describes them.
func read(text string) (rows []Row, err error) {
	var file, chaos string
	var tests [][]string
	for n, block := range strings.Split(text, "\n\n") {
		r := Row{}
		var was, is []string
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			word, rest, _ := strings.Cut(line, " ")
			switch {
			case line == "" || word == "#":
			case word == "file":
				file, tests, chaos = rest, nil, ""
			case word == "chaos":
				chaos, tests = rest, onChaos(rest)
			case word == "says":
				r.Says = rest
			case word == "test":
				tests = append(tests, strings.Fields(rest))
			case word == "-":
				was = append(was, rest)
			case word == "+":
				is = append(is, rest)
			case word == "!":
				r.Survives = rest
			case r.Name == "":
				r.Name = line
			default:
				return nil, fmt.Errorf("block %d: what is %q?", n+1, line)
			}
		}
		if r.Name == "" && was == nil {
			continue // a head
		}
		if r.Name == "" || was == nil || file == "" || len(tests) == 0 {
			return nil, fmt.Errorf("block %d (%q) has no name, no text, no file or no test", n+1, r.Name)
		}
		r.File, r.Tests, r.Chaos = file, tests, chaos
		r.Was, r.Is = strings.Join(was, "\n"), strings.Join(is, "\n")
		rows = append(rows, r)
	}
	return rows, nil
}

// onChaos are the tests of a row that package chaos tries: a run of each of a few seeds.
func onChaos(topology string) (tests [][]string) {
	for seed := 1; seed <= 5; seed++ {
		tests = append(tests, []string{
			"./guard/internal/chaos", "-run", "^TestChaos$", "-topology=" + topology, "-duration=20s", fmt.Sprint("-seed=", seed),
		})
	}
	return tests
}

// Broken is the file's text with the rule broken.
func (r *Row) Broken(text string) (string, error) {
	if n := strings.Count(text, r.Was); n != 1 {
		return "", fmt.Errorf("%s: its text is in %s %d times, not once", r.Name, r.File, n)
	}
	return strings.Replace(text, r.Was, r.Is, 1), nil
}
