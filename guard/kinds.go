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
