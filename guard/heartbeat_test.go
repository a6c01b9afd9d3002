package guard

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHostAndProcess_IsShortAndPrintable(t *testing.T) {
	host, err := os.Hostname()
	assert.Equal(t, hostAndProcess(host, err, os.Getpid()), new(Guard).newHeartbeat().name)
	for host, want := range map[string]string{
		"web-7":                       "web-7:4711",
		strings.Repeat("w", 65):       strings.Repeat("w", 64) + ":4711",
		"web\xff":                     "unknown:4711",
		strings.Repeat("w", 63) + "ü": "unknown:4711",
	} {
		assert.Equal(t, want, hostAndProcess(host, nil, 4711))
	}
	assert.Equal(t, "unknown:4711", hostAndProcess("web-7", errors.New("not known"), 4711))
}
