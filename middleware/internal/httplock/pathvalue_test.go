package httplock

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Routers hand out what stands in the URL, or decode it.
func TestPathValue_PathValuesAreDecodedOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ url, value, want string }{
		{"/orders/7", "7", "7"},
		{"/orders/%37", "%37", "7"},
		{"/orders/%37", "7", "7"},
		{"/orders/%2541", "%2541", "%41"},
		{"/orders/%2541", "%41", "%41"},
		{"/orders/100%25", "100%25", "100%"},
		{"/orders/100%25", "100%", "100%"},
		{"/orders/a%20b", "a%20b", "a b"},
		{"/orders/a%20b", "a b", "a b"},
		{"/orders/a+b", "a+b", "a+b"},
		{"/a//%2F..%37", "%2F..%37", "/..7"},
		{"/files/a/%37", "a/%37", "a/7"},
		{"/orders/ü%2525", "ü%2525", "ü%25"},
		{"/orders/%37.json", "%37", "7"},
		{"/orders/%2525", "%2525", "%25"},
		{"/a%2F%37", "/a%2F%37", "/a/7"}, // all of the path
		{"/a%2F1%20", "1%20", "1 "},
		{"/elsewhere", "7", "7"},

		{"/orders/a+b", "a b", "ambiguous"}, // that router took the plus for a blank
		{"/orders/%2525", "%25", "ambiguous"},
		{"/%2541/%41", "%41", "ambiguous"},
		{"/orders/%25%32%35", "%25", "ambiguous"},
		{"/%31%20", "1%20", "ambiguous"},   // it begins with a half of %31
		{"/elsewhere", "%37", "ambiguous"}, // a layer rewrote the URL
	} {
		u, err := url.Parse(row.url)
		require.NoError(t, err)
		got, err := decodePathValue(u, row.value)
		if row.want == "ambiguous" {
			assert.ErrorContains(t, err, "decoded or not", "%+v", row)
			continue
		}
		assert.NoError(t, err, "%+v", row)
		assert.Equal(t, row.want, got, "%+v", row)
	}
}
