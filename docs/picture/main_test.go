package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPictureIsTheOneInDocs(t *testing.T) {
	committed, err := os.ReadFile("../waiting.svg")
	require.NoError(t, err)
	assert.Equal(t, string(committed), waiting(), "go run ./docs/picture > docs/waiting.svg")
}

func TestPictureIsXML(t *testing.T) {
	d := xml.NewDecoder(strings.NewReader(waiting()))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}
