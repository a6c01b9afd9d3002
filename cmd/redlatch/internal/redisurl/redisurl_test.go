package redisurl_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/redisurl"
)

func open(t *testing.T, text string) redis.UniversalClient {
	t.Helper()
	client, err := redisurl.Open(text)
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

func TestOneServer(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"redis", "valkey"} {
		o := one(t, scheme+"://user:secret@host:1234/5")
		assert.Equal(t, "host:1234", o.Addr)
		assert.Equal(t, "user", o.Username)
		assert.Equal(t, "secret", o.Password)
		assert.Equal(t, 5, o.DB)
		assert.Nil(t, o.TLSConfig)
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
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis+sentinel://a:1?master_name=m&addr=b:2",
		"redis://a:1?master_name=m&addr=b:2",
		"rediss+sentinel://a:1/3?master_name=m&password=secret",
	} {
		assert.Equal(t, "FailoverClient", one(t, text).Addr, text)
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
	assert.Nil(t, o.TLSConfig)
	client, ok = open(t, "valkeys+cluster://a:1").(*redis.ClusterClient)
	require.True(t, ok)
	assert.NotNil(t, client.Options().TLSConfig)
}

func TestWhatIsNoURLOfRedis(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                  "host",
		"localhost:6379":                    "host",
		"redis://":                          "host",
		"http://u:hunter2@host":             "scheme",
		"redis+ring://u:hunter2@host":       "+ring",
		"redis+sentinel://u:hunter2@host":   "master_name",
		"redis://u:hunter2@host:port":       "port",
		"redis://u:hunter2@host/one":        "database",
		"redis://u:hunter2@host?fast=1":     "fast",
		"redis+cluster://u:hunter2@h?addr=": "addr",
		"redis://u:hunter2%zz@host":         "escape",
		"redis://u:hunter2\x00@host":        "control",
	} {
		_, err := redisurl.Open(text)
		require.ErrorContains(t, err, says, text)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}
