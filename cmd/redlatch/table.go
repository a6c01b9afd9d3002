package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/redlatch/redlatch/guard/inspect"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// columns returns the longest line of a result: COLUMNS, or the width of the terminal. 0, in a pipe, is no bound.
func columns() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		return n
	}
	width, _, _ := term.GetSize(int(os.Stdout.Fd()))
	return width
}

const columnGap = 2

// writeTable writes one line for each holder, at most columns wide if that is possible. 0 is no bound.
func writeTable(w io.Writer, locks []inspect.Info, match string, columns int) {
	switch {
	case len(locks) == 0 && match == "":
		_, _ = fmt.Fprintln(w, "nothing is held")
		return
	case len(locks) == 0:
		_, _ = fmt.Fprintf(w, "no lock is held whose key matches %s\n", visible(match))
		return
	}
	rows := [][]string{{"KEY", "HELD BY", "FOR", "LEFT", "WAITING", "FENCE", "WHAT"}}
	for _, info := range locks {
		waiting := strconv.Itoa(info.Queued)
		if len(info.Waiting) > 0 {
			waiting += " for " + age(info.Now, info.Waiting[0].Since)
		}
		for _, h := range info.Holders {
			rows = append(rows, []string{
				visible(info.Key), visible(h.Instance), age(info.Now, h.Since), left(h.Left), waiting, strconv.FormatUint(h.Fence, 10), what(h),
			})
			waiting = ""
		}
	}
	if columns > 0 {
		fit(rows, columns)
	}
	table := tabwriter.NewWriter(w, 0, 0, columnGap, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush()
}

// leastWidth is the least width of a text that was cut.
const leastWidth = 8

// fit cuts the longest columns with texts of users, until a row is at most columns wide.
func fit(rows [][]string, columns int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for n, cell := range row {
			widths[n] = max(widths[n], utf8.RuneCountInString(cell))
		}
	}
	total := columnGap * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	for ; total > columns; total-- {
		longest := 0
		for _, n := range []int{1, len(widths) - 1} { // next to the key, the holder and its text
			if widths[n] > widths[longest] {
				longest = n
			}
		}
		if widths[longest] <= leastWidth {
			break
		}
		widths[longest]--
	}
	for _, row := range rows {
		for n, cell := range row {
			row[n] = cut(cell, widths[n])
		}
	}
}

// cut removes the middle of a text: keys and instances often differ at the end.
func cut(text string, width int) string {
	all := []rune(text)
	if len(all) <= width {
		return text
	}
	back := (width - 1) / 2
	return string(all[:width-1-back]) + "…" + string(all[len(all)-back:])
}
