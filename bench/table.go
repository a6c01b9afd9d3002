package main

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

var header = append(append([]string{"scenario", "measured"}, libraries...), reference, "ratio", "bar", "met")

// rows are the cells of the table. A bar more than the first has a row of its own.
func rows(all []result) [][]string {
	var table [][]string
	for _, r := range all {
		for _, m := range r.measures {
			row := []string{m.scenario, m.name}
			for _, column := range append(libraries[:len(libraries):len(libraries)], reference) {
				row = append(row, m.cell(column))
			}
			if len(m.bars) == 0 {
				table = append(table, append(row, "", "", ""))
			}
			for _, b := range m.bars {
				table = append(table, append(row, m.verdict(b)...))
				row = []string{"", "", "", "", "", "", ""}
			}
		}
	}
	return table
}

func (m *measure) cell(column string) string {
	value, ok := m.at(column)
	if !ok {
		return ""
	}
	return m.format(value)
}

func (m *measure) verdict(b bar) []string {
	value, met, ok := b.judge(m)
	if !ok {
		return []string{"", b.String(), ""}
	}
	ratio, verdict := "", "no"
	if len(b.against) > 0 {
		ratio = strconv.FormatFloat(value, 'g', 3, 64)
	}
	if met {
		verdict = "yes"
	}
	return []string{ratio, b.String(), verdict}
}

// formatTable returns a table in Markdown that can be read as it is. Numbers are set to the right.
func formatTable(table [][]string, isNumber func(column int) bool) string {
	widths := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	rule := make([]string, len(widths))
	for column, width := range widths {
		rule[column] = strings.Repeat("-", width)
		if isNumber(column) {
			rule[column] = strings.Repeat("-", width-1) + ":"
		}
	}
	var text strings.Builder
	for _, row := range slices.Insert(table, 1, rule) {
		for column, cell := range row {
			fill := strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell))
			if isNumber(column) {
				cell = fill + cell
			} else {
				cell += fill
			}
			text.WriteString("| " + cell + " ")
		}
		text.WriteString("|\n")
	}
	return text.String()
}

// isNumber says that a column of rows has numbers.
func isNumber(column int) bool { return column > 1 && column < len(header)-2 }
