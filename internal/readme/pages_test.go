package readme

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const (
	index      = "docs/README.md"
	mostOnPage = 1200 // words: a longer page is two
)

func words(text string) int { return len(strings.Fields(text)) }

// A page that the index does not link to is not found.
func TestPages_AreInTheIndex(t *testing.T) {
	linked := map[string]bool{index: true}
	for _, to := range link.FindAllStringSubmatch(read(t, index), -1) {
		linked[path.Join("docs", to[1])] = true
	}
	for name := range documents(t) {
		if strings.Contains(name, "docs/") {
			assert.True(t, linked[name], "%s does not link to %s", index, name)
		}
	}
}

// A user reads a page once.
func TestPages_AreShort(t *testing.T) {
	for name, text := range pages(t, "docs") {
		if path.Dir(name) != "docs" {
			assert.LessOrEqual(t, words(text), mostOnPage, name)
		}
	}
}

// A page begins with the sentence that a user looks for.
func TestPages_BeginWithAHeading(t *testing.T) {
	for name, text := range pages(t, "docs") {
		assert.True(t, strings.HasPrefix(text, "# "), name)
	}
}
