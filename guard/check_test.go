package guard

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

func TestSpace_IsThatOfOneServerDatabaseAndPrefix(t *testing.T) {
	clients := map[string]redis.UniversalClient{
		"server":           redis.NewClient(&redis.Options{Addr: "a:1"}),
		"again":            redis.NewClient(&redis.Options{Addr: "a:1"}),
		"other server":     redis.NewClient(&redis.Options{Addr: "b:1"}),
		"database":         redis.NewClient(&redis.Options{Addr: "a:1", DB: 1}),
		"sentinel":         redis.NewFailoverClient(&redis.FailoverOptions{SentinelAddrs: []string{"a:1"}}),
		"another sentinel": redis.NewFailoverClient(&redis.FailoverOptions{SentinelAddrs: []string{"a:1"}}),
		"cluster":          redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1"}}),
		"another cluster":  redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1"}}),
	}
	for name, client := range clients {
		defer client.Close()
		for other, with := range clients {
			same := name == other || name == "server" && other == "again" || name == "again" && other == "server"
			assert.Equal(t, same, spaceOf(client, "p") == spaceOf(with, "p"), "%s, %s", name, other)
		}
		assert.NotEqual(t, spaceOf(client, "p"), spaceOf(client, "q"), name)
	}
}
