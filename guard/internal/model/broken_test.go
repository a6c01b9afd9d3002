package model

import (
	"maps"
	"slices"
	"testing"

	"github.com/redlatch/redlatch/guard/internal/model/replay"
)

// TestBrokenScripts breaks the scripts, one rule at a time: the replay notices each time. The
// rules are those of the table of make mutants that name this test.
func TestBrokenScripts(t *testing.T) {
	t.Parallel()
	if sparing {
		t.Skip("the race detector leaves time for too few calls")
	}
	replay.BrokenScripts(t, "./guard/internal/model", func(t *testing.T, alter func(name, source string) string) bool {
		t.Helper()
		return embedded(t, alter).noticed(t) != ""
	})
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
