package answer

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKept_AnswersAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, k := range []Kept{
		{Status: 204, Header: http.Header{}},
		{Status: 201, Header: http.Header{"Location": {"/a"}, "Content-Disposition": {"a\xff"}}, body: []byte("\r\n\r\n\x00body")},
	} {
		k.whole = true
		data, err := marshal(&k)
		require.NoError(t, err)
		var got *Kept
		require.NoError(t, unmarshal(data, &got))
		assert.Equal(t, k.Status, got.Status)
		assert.Equal(t, k.Header, got.Header)
		assert.Equal(t, string(k.body), string(got.body))
	}
}

// Whatever is in Redis, a replay neither panics nor sets a header that is never kept.
func TestKept_RecordsThatAreNoAnswersAreRefused(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		"", "200", "200\r\n", "\r\n\r\n", "x\r\n\r\n", "99\r\n\r\n", "500\r\n\r\n", "-1\r\n\r\n", "1000\r\n\r\n",
		"200\r\nSet-Cookie: a=b\r\n\r\n", "200\r\nno header\r\n\r\n",
	} {
		var got *Kept
		require.Error(t, unmarshal([]byte(data), &got), "%q", data)
		assert.Nil(t, got, "%q", data)
	}
	_, err := marshal("no answer")
	assert.Error(t, err)
}

func TestKept_LineBreaksInAHeaderAddNone(t *testing.T) {
	t.Parallel()
	data, err := marshal(&Kept{Status: 201, Header: http.Header{"Location": {"/a\r\nSet-Cookie: b=c\r\n\r\nbody"}}, whole: true})
	require.NoError(t, err)
	var got *Kept
	require.NoError(t, unmarshal(data, &got))
	assert.Len(t, got.Header, 1)
	assert.NotContains(t, got.Header.Get("Location"), "\n")
	assert.Empty(t, got.body)
}
