package guard

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// checkClient is for New.
func checkClient(client redis.UniversalClient) error {
	if isNil(client) {
		return &OptionError{"client", "is nil"}
	}
	if why := redisconn.Unfit(client, "New", "*redis.Client or *redis.ClusterClient"); why != "" {
		return &OptionError{"client", fmt.Sprintf("is a %T%s", client, why)}
	}
	return nil
}

// checkMember is for NewQuorum, whose servers must not depend on each other.
func checkMember(client redis.UniversalClient, index int) error {
	if isNil(client) {
		return &OptionError{"clients", fmt.Sprintf("has no client at index %d", index)}
	}
	why := redisconn.Unfit(client, "NewQuorum", "*redis.Client")
	if _, isCluster := client.(*redis.ClusterClient); isCluster && why == "" {
		why = ": a server of a quorum is standalone or behind Sentinel, and made by NewClient or NewFailoverClient"
	}
	if why != "" {
		return &OptionError{"clients", fmt.Sprintf("has a %T at index %d%s", client, index, why)}
	}
	return nil
}
