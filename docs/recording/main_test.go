package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARecordingIsXMLAndShowsEveryLine(t *testing.T) {
	drawn := draw([]line{{0, "$ go run <&>"}, {1500 * time.Millisecond, "double charges  7"}})
	assert.Contains(t, drawn, "animation-delay:1.50s")
	var texts []string
	d, inText := xml.NewDecoder(strings.NewReader(drawn)), false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				texts = append(texts, string(token))
			}
		}
	}
	assert.Equal(t, []string{"$ go run <&>", "double charges  7"}, texts)
}

// The picture in the README is that of a run of both kinds.
func TestTheRecordingIsThere(t *testing.T) {
	text, err := os.ReadFile("../orders.svg")
	require.NoError(t, err)
	for _, said := range []string{"$ go run ./examples/orders", "every order was charged exactly once", "-unguarded", "charges too many"} {
		assert.Contains(t, string(text), said, "make recording")
	}
}
