package model

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/mutants/table"
)

// TestBrokenScripts breaks the scripts, one rule at a time: the replay notices each time. The
// rules are those of the table of make mutants that name this test.
func TestBrokenScripts(t *testing.T) {
	t.Parallel()
	if sparing {
		t.Skip("the race detector leaves time for too few calls")
	}
	rows, err := table.Rows()
	require.NoError(t, err)
	var broken []table.Row
	for _, r := range rows {
		if r.Replayed() == "./guard/model" {
			broken = append(broken, r)
		}
	}
	require.NotEmpty(t, broken)
	for _, r := range broken {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			s := embedded(t, func(_, source string) string { return strings.Replace(source, r.Was, r.Is, 1) })
			assert.NotEmpty(t, s.noticed(t), "nothing noticed")
		})
	}
}

// noticed says how the scripts differ from the model. It takes some calls in all variants,
// then some more.
func (s *server) noticed(t *testing.T) string {
	t.Helper()
	for some := range slices.Chunk(slices.Collect(maps.Keys(small())), 20) {
		for i := range variants {
			for _, c := range some {
				if v := &variants[i]; v.fits(c) {
					if wrong := s.run(t, &rules{}, c, v); wrong != "" {
						return wrong
					}
				}
			}
		}
	}
	return ""
}
