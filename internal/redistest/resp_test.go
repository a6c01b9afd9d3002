package redistest

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRESP_ReadFrameDelimits(t *testing.T) {
	t.Parallel()
	frames := []string{
		"+OK\r\n", "-ERR no\r\n", ":-1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123456789\r\n",
		"$-1\r\n", "$0\r\n\r\n", "$6\r\na\r\n\x00*1\r\n", "!5\r\nERR x\r\n", "=7\r\ntxt:a\nb\r\n",
		"*-1\r\n", "*0\r\n", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "*2\r\n*1\r\n:1\r\n%1\r\n+a\r\n*0\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n", "~2\r\n:1\r\n:2\r\n", ">2\r\n$7\r\nmessage\r\n+x\r\n",
		"|1\r\n+ttl\r\n:3\r\n*1\r\n+value\r\n", "$70000\r\n" + strings.Repeat("x", 70000) + "\r\n",
		"PING\r\n",
	}
	stream := strings.Join(frames, "")
	for _, source := range []io.Reader{
		strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream)),
	} {
		r := bufio.NewReader(source)
		for _, want := range frames {
			got, err := readFrame(r)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		}
		_, err := readFrame(r)
		require.ErrorIs(t, err, io.EOF)
	}
}

func TestRESP_ReadFrameRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", "*", "*x\r\n", "$\r\n", "$5\r\nab", "*2\r\n:1\r\n", "%1\r\n+a\r\n", "|1\r\n+a\r\n:1\r\n",
		"$99999999999\r\nab",
	} {
		_, err := readFrame(bufio.NewReader(strings.NewReader(in)))
		assert.Error(t, err, "%q", in)
	}
}

func TestRESP_FirstWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"*1\r\n$4\r\nPING\r\n":               "ping",
		"*2\r\n$7\r\nEVALSHA\r\n$1\r\nx\r\n": "evalsha",
		">1\r\n$7\r\nmessage\r\n":            "message",
		"*1\r\n:1\r\n":                       "",
		"*0\r\n":                             "",
		"+OK\r\n":                            "",
		"":                                   "",
	} {
		assert.Equal(t, want, firstWord([]byte(in)), "%q", in)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n+OK\r\n")
	f.Add("|1\r\n+a\r\n:1\r\n%1\r\n+k\r\n~1\r\n_\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		r := bufio.NewReader(strings.NewReader(in))
		frame, err := readFrame(r)
		if err != nil {
			return
		}
		require.True(t, strings.HasPrefix(in, string(frame)), "%q is not how %q begins", frame, in)
		again, err := readFrame(bufio.NewReader(strings.NewReader(string(frame))))
		require.NoError(t, err)
		require.Equal(t, frame, again)
	})
}
