package readme

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const (
	index      = "docs/README.md"
	mostOnPage = 1200  // words: a longer page is two
	mostInAll  = 16000 // words of README.md and docs
)

var word = regexp.MustCompile(`\S*[\pL\pN]\S*`) // the bars of tables are none

func words(text string) int { return len(word.FindAllString(text, -1)) }

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

// A page begins with the sentence that a user looks for. A user reads a page once, and the README in five minutes.
func TestPages_HaveAHeadingAndAreShort(t *testing.T) {
	all := words(read(t, "README.md"))
	assert.True(t, all >= 500 && all <= 600, "the README has %d words", all)
	for name, text := range pages(t, "docs") {
		n := words(text)
		all += n
		assert.True(t, strings.HasPrefix(text, "# "), name)
		assert.LessOrEqual(t, n, mostOnPage, name)
	}
	assert.LessOrEqual(t, all, mostInAll)
	t.Log(all, "words")
}
