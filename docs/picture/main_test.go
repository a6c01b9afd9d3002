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

func TestPicturesAreThoseInDocs(t *testing.T) {
	for name, draw := range pictures {
		committed, err := os.ReadFile("../" + name)
		require.NoError(t, err)
		assert.Equal(t, string(committed), draw(), "go run ./docs/picture")
	}
}

func TestPicturesAreXML(t *testing.T) {
	for name, draw := range pictures {
		d := xml.NewDecoder(strings.NewReader(draw()))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
		}
	}
}
