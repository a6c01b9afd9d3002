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

// Replays are where a TestReplay is, and TestReplay_BrokenScripts, which breaks all rows whose nearest test it is.
var Replays = []string{"./guard/internal/model", "./guard/internal/model/records"}

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
	var head Row
	var before string // the first word of the last line
	for n, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		name, change, isRow := strings.Cut(line, " :: ")
		switch {
		case line == "" || word == "#":
		case isRow:
			r := head
			r.Name = name
			r.Was, r.Is, _ = strings.Cut(newlines.Replace(change), " ==> ")
			if r.Was == "" || r.File == "" || len(r.Tests) == 0 {
				return nil, fmt.Errorf("line %d (%q) has no text, no file or no test", n+1, line)
			}
			rows = append(rows, r)
		case word == "file":
			head.File = rest
		case word == "chaos":
			head.Chaos, head.Tests = rest, onChaos(rest)
		case word == "test":
			if before != word {
				head.Chaos, head.Tests = "", nil
			}
			head.Tests = append(slices.Clip(head.Tests), strings.Fields(rest))
		case word == "!" && len(rows) > 0:
			rows[len(rows)-1].Survives = rest
		case word == "says" && len(rows) > 0:
			rows[len(rows)-1].Says = rest
		default:
			return nil, fmt.Errorf("line %d: what is %q?", n+1, line)
		}
		before = word
	}
	return rows, nil
}

// newlines has a text of several lines be one of the table's.
var newlines = strings.NewReplacer("⏎", "\n")

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
