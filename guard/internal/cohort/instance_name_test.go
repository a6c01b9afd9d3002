package cohort

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHostAndProcess_IsShortAndPrintable(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	assert.Equal(t, hostAndProcess(host, err, os.Getpid()), HostAndProcess())
	for name, c := range map[string]struct {
		host string
		err  error
		want string
	}{
		"as it is":     {"web-7", nil, "web-7:4711"},
		"as it can be": {strings.Repeat("w", 64), nil, strings.Repeat("w", 64) + ":4711"},
		"too long":     {strings.Repeat("w", 65), nil, strings.Repeat("w", 64) + ":4711"},
		"no text":      {"web\xff", nil, "unknown:4711"},
		"not known":    {"web-7", errors.New("not known"), "unknown:4711"},
		"cut apart":    {strings.Repeat("w", 63) + "ü", nil, "unknown:4711"},
	} {
		assert.Equal(t, c.want, hostAndProcess(c.host, c.err, 4711), name)
	}
}
