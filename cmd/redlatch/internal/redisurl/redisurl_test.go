package redisurl_test

import (
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

func open(t *testing.T, text string) redis.UniversalClient {
	t.Helper()
	client, err := redisurl.Open(text, "")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

func one(t *testing.T, text string) *redis.Options {
	t.Helper()
	client, ok := open(t, text).(*redis.Client)
	require.True(t, ok)
	return client.Options()
}

func TestRedisURL_OneServer(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"redis", "valkey"} {
		o := one(t, scheme+"://user:secret@host:1234/5")
		assert.Equal(t, "host:1234", o.Addr)
		assert.Equal(t, "user", o.Username)
		assert.Equal(t, "secret", o.Password)
		assert.Equal(t, 5, o.DB)
		assert.Nil(t, o.TLSConfig)
		assert.Equal(t, 1, o.DialerRetries)
	}
	for _, scheme := range []string{"rediss", "valkeys"} {
		o := one(t, scheme+"://host?skip_verify=true")
		assert.Equal(t, "host:6379", o.Addr)
		require.NotNil(t, o.TLSConfig)
		assert.True(t, o.TLSConfig.InsecureSkipVerify)
	}
	o := one(t, "unix:///run/redis.sock?db=2")
	assert.Equal(t, "unix", o.Network)
	assert.Equal(t, "/run/redis.sock", o.Addr)
	assert.Equal(t, 2, o.DB)
	assert.Equal(t, "a@b", one(t, "redis://u:secret@host?client_name=a@b").ClientName)

	ping := open(t, "redis://"+redistest.Start(t).Addr()).Ping(t.Context())
	require.NoError(t, ping.Err())
}

func TestRedisURL_Sentinel(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis+sentinel://a:1?master_name=m&addr=b:2",
		"redis://a:1?master_name=m&addr=b:2",
		"rediss+sentinel://a:1/3?master_name=m&password=secret",
		"redis+sentinel://a:1?master_name=m&password=s@cret",
	} {
		o := one(t, text)
		assert.Equal(t, "FailoverClient", o.Addr, text)
		assert.Equal(t, 1, o.DialerRetries, text)
	}
	assert.NotNil(t, one(t, "rediss+sentinel://a:1?master_name=m").TLSConfig)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	client, ok := open(t, "redis+cluster://user:secret@a:1?addr=b:2").(*redis.ClusterClient)
	require.True(t, ok)
	o := client.Options()
	assert.ElementsMatch(t, []string{"a:1", "b:2"}, o.Addrs)
	assert.Equal(t, "secret", o.Password)
	assert.Equal(t, 1, o.DialerRetries)
	assert.Nil(t, o.TLSConfig)
	client, ok = open(t, "valkeys+cluster://a:1").(*redis.ClusterClient)
	require.True(t, ok)
	assert.NotNil(t, client.Options().TLSConfig)
}

func TestRedisURL_OtherURLsAreRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                                "host",
		"localhost:6379":                                  "want a URL such as redis://host:6379",
		"redis://":                                        "host",
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

// addresses returns the addresses to which a client would connect.
func addresses(client redis.UniversalClient) string {
	switch client := client.(type) {
	case *redis.ClusterClient:
		return fmt.Sprint(client.Options().Addrs)
	case *redis.Client:
		return client.Options().Addr
	}
	return ""
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
					shown = addresses(client) // an error of the connection has them
					assert.NoError(t, client.Close())
				}
				for _, piece := range []string{"hun73r", "7351", "s3cr37"} {
					assert.NotContains(t, shown, piece, text)
				}
			}
		}
	})
}

// The password may come from a file, so that no list of processes has it.
func TestRedisURL_ThePasswordBesideTheURL(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"redis://user@host", "redis://host", "unix:///run/redis.sock", "redis+sentinel://u:other@a:1?master_name=m", "redis+cluster://a:1"} {
		client, err := redisurl.Open(text, "a/?#b")
		require.NoError(t, err, text)
		switch client := client.(type) {
		case *redis.ClusterClient:
			assert.Equal(t, "a/?#b", client.Options().Password)
		case *redis.Client:
			assert.Equal(t, "a/?#b", client.Options().Password)
		}
		assert.NoError(t, client.Close())
	}
	for _, text := range []string{"redis://:hunter2@host", "redis+sentinel://h?master_name=m&password=hunter2", "redis+cluster://u:hunter2@a:1"} {
		_, err := redisurl.Open(text, "another")
		require.ErrorContains(t, err, "password, too")
		assert.NotContains(t, err.Error(), "hunter2")
		assert.NotContains(t, err.Error(), "another")
	}
}

func TestRedisURL_TLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	addr := server.Listener.Addr().String()
	for _, text := range []string{"rediss://" + addr, "rediss+sentinel://" + addr + "?master_name=m"} {
		err := open(t, text).Ping(t.Context()).Err()
		require.ErrorContains(t, err, "TLS with "+addr)
		require.ErrorContains(t, err, "certificate")
		assert.NotContains(t, err.Error(), "plain", "the port is right")
	}

	err := open(t, "rediss://"+addr+"?skip_verify=true&max_retries=-1").Ping(t.Context()).Err()
	require.Error(t, err, "it is no Redis")
	assert.NotContains(t, err.Error(), "TLS", "that went well")
}
