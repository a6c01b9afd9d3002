package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeResults writes RESULTS.md and the plots that it shows.
func writeResults(dir string, about []string, all []result) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# Results\n\nWritten by `make bench`. [README.md](README.md) says how to read it.\n\n")
	for _, line := range about {
		fmt.Fprintf(&text, "- %s\n", line)
	}
	fmt.Fprintf(&text, "\n%s", formatTable(all))
	for _, p := range plots {
		drawn, err := p.draw(all)
		if err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
		if err := save(drawn, filepath.Join(dir, p.file)); err != nil {
			return err
		}
		fmt.Fprintf(&text, "\n![%s](%s)\n", p.title, p.file)
	}
	return os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte(text.String()), 0o644)
}
