package redisurl_test

import (
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/redisurl"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// told returns what a client was told: its addresses, but not those of Sentinels, and the rest, which begins with how
// often it dials.
func told(client redis.UniversalClient) (addresses, rest string) {
	secured := func(config *tls.Config) string {
		switch {
		case config == nil:
			return ""
		case config.InsecureSkipVerify:
			return " TLS unverified"
		}
		return " TLS"
	}
	if c, ok := client.(*redis.ClusterClient); ok {
		o := c.Options()
		return fmt.Sprint(o.Addrs), fmt.Sprintf("%d %s:%s%s", o.DialerRetries, o.Username, o.Password, secured(o.TLSConfig))
	}
	o := client.(*redis.Client).Options()
	return o.Addr, fmt.Sprintf("%d %s:%s %d%s", o.DialerRetries, o.Username, o.Password, o.DB, secured(o.TLSConfig))
}

// The password may come from a file, so that no list of processes has it.
func TestRedisURL_Forms(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"redis://user:secret@host:1234/5", "", "host:1234 1 user:secret 5"},
		{"valkey://user:secret@host:1234/5", "", "host:1234 1 user:secret 5"},
		{"rediss://host?skip_verify=true", "", "host:6379 1 : 0 TLS unverified"},
		{"valkeys://host", "", "host:6379 1 : 0 TLS"},
		{"unix:///run/redis.sock?db=2", "", "/run/redis.sock 1 : 2"},
		{"redis://u:secret@host?client_name=a@b", "", "host:6379 1 u:secret 0"},
		{"redis://user@host", "a/?#b", "host:6379 1 user:a/?#b 0"},
		{"unix:///run/redis.sock", "a/?#b", "/run/redis.sock 1 :a/?#b 0"},
		{"redis+sentinel://a:1?master_name=m&addr=b:2", "", "FailoverClient 1 : 0"},
		{"redis://a:1?master_name=m&addr=b:2", "", "FailoverClient 1 : 0"},
		{"redis+sentinel://a:1?master_name=m&password=s@cret", "", "FailoverClient 1 :s@cret 0"},
		{"rediss+sentinel://u:other@a:1/3?master_name=m", "a/?#b", "FailoverClient 1 :a/?#b 3 TLS"},
		{"redis+cluster://user:secret@a:1?addr=b:2", "", "[a:1 b:2] 1 user:secret"},
		{"valkeys+cluster://a:1", "a/?#b", "[a:1] 1 :a/?#b TLS"},
	} {
		client, err := redisurl.Open(c[0], c[1])
		require.NoError(t, err, c[0])
		addresses, rest := told(client)
		assert.Equal(t, c[2], addresses+" "+rest, c[0])
		assert.NoError(t, client.Close())
	}
	for _, text := range []string{"redis://:hunter2@host", "redis+sentinel://h?master_name=m&password=hunter2", "redis+cluster://u:hunter2@a:1"} {
		_, err := redisurl.Open(text, "another")
		require.ErrorContains(t, err, "password, too")
		assert.NotContains(t, err.Error(), "hunter2")
		assert.NotContains(t, err.Error(), "another")
	}
}

func TestRedisURL_OtherURLsAreRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                                "host",
		"localhost:6379":                                  "want a URL such as redis://host:6379",
		"redis://":                                        "host",
		"redis+ring://u:hunter2@host":                     "scheme",
		"unix+cluster:///x":                               "scheme",
		"//host:/x":                                       "scheme",
		"/:/x":                                            "want a URL such as redis://host:6379",
		"localhost:6379:/x":                               "want a URL such as redis://host:6379",
		"http://u:hunter2@host":                           "scheme",
		"redis+sentinel://u:hunter2@host":                 "master_name",
		"redis://u:hunter2@host:port":                     "port",
		"redis://u:hunter2@host/one":                      "database",
		"redis+cluster://u:hunter2@host/1":                "database 0",
		"redis://u:hunter2@host?db=one":                   "the value of db",
		"redis://h?dial_timeout=hunter2":                  "the value of dial_timeout",
		"redis://u@host?db=1&fast=1":                      "parameter 2 of the query is not known",
		"redis+cluster://u:hunter2@h?addr=":               "the value of addr",
		"redis://host?read_timeout=1s&%zz=1":              "percent-encoded",
		"redis://u:7351/hunter2@host":                     "percent-encoded",
		"redis://u:7351?hunter2@host":                     "percent-encoded",
		"redis://u:hunter2@host#1":                        "percent-encoded",
		"redis://u:hunter2%zz@host":                       "percent-encoded",
		"redis://u:hunter2\x00@host":                      "percent-encoded",
		"file:///run/redis.sock":                          "scheme",
		"unix://host/run/redis.sock":                      "unix:///",
		"//host:6379":                                     "want a URL such as redis://host:6379",
		"u:hunter2@host:6379":                             "want a URL such as redis://host:6379",
		"redis://:6379":                                   "host",
		"unix:///run/redis.sock?db=one":                   "the value of db",
		"redis+cluster://h?master_name=m":                 "parameter 1 of the query is not known",
		"redis://h?conn_max_idle_time=1s&idle_timeout=1s": "do not go together",
	} {
		_, err := redisurl.Open(text, "")
		require.ErrorContains(t, err, says, text)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

// A password that was not encoded has characters with a meaning in URLs. No error has a piece of the password.
func FuzzNoErrorHasThePassword(f *testing.F) {
	for _, odd := range []string{
		"/", "//", "?", "#", "%", "%zz", "[", "]", ":", " ", "\\", "^", "|", "<", "\x00", "\n", "é", "/@", "?@", "#@", "@h?", "?x=", "/?#", "&", "=", "+",
	} {
		f.Add(odd)
	}
	f.Fuzz(func(t *testing.T, odd string) {
		for _, form := range []string{
			"redis://u:%s@host", "redis://:%s@host:6379/0", "redis://%s@host", "rediss://u:%s@host?skip_verify=true",
			"unix://u:%s@/run/redis.sock", "redis+sentinel://u:%s@host?master_name=m", "redis+cluster://u:%s@host?addr=b:1",
			"redis+sentinel://host?master_name=m&password=%s", "redis+ring://u:%s@host", "http://u:%s@host", "u:%s@host", "%s", "%s://host",
		} {
			for _, password := range []string{"hun73r" + odd + "s3cr37", "7351" + odd + "s3cr37", "hun73r" + odd, odd + "s3cr37"} {
				text := strings.Replace(form, "%s", password, 1)
				client, err := redisurl.Open(text, "")
				shown := fmt.Sprint(err)
				if err == nil {
					shown, _ = told(client) // errors of the connection have the addresses
					assert.NoError(t, client.Close())
				}
				for _, piece := range []string{"hun73r", "7351", "s3cr37"} {
					assert.NotContains(t, shown, piece, text)
				}
			}
		}
	})
}

func TestRedisURL_TLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	addr := server.Listener.Addr().String()
	ping := func(text string) error {
		client, err := redisurl.Open(text, "")
		require.NoError(t, err)
		defer client.Close()
		return client.Ping(t.Context()).Err()
	}
	for _, text := range []string{"rediss://" + addr, "rediss+sentinel://" + addr + "?master_name=m"} {
		err := ping(text)
		require.ErrorContains(t, err, "TLS with "+addr)
		require.ErrorContains(t, err, "certificate")
		assert.NotContains(t, err.Error(), "plain", "the port is right")
	}
	err := ping("rediss://" + addr + "?skip_verify=true&max_retries=-1")
	require.Error(t, err, "it is no Redis")
	assert.NotContains(t, err.Error(), "TLS", "that went well")
}
