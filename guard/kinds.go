package guard

import (
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"
)

// unfit says what keeps a client, which is not nil, from being used, to be read after what
// it is; nothing if it may be. taken are the kinds that the constructor takes.
func unfit(client redis.UniversalClient, constructor, taken string) string {
	switch client.(type) {
	case *redis.Client, *redis.ClusterClient:
		if reflect.ValueOf(client).Elem().IsZero() {
			return " that go-redis did not make"
		}
		return ""
	case *redis.Ring:
		return ": it takes a shard that hangs out of use, and its locks would have two holders"
	}
	return "; give " + constructor + " the " + taken + " itself: a wrapper hides what " + constructor +
		" has to know, and its timeouts cannot be bound"
}

// checkClient is for New.
func checkClient(client redis.UniversalClient) error {
	if isNil(client) {
		return &OptionError{"client", "is nil"}
	}
	if why := unfit(client, "New", "*redis.Client or *redis.ClusterClient"); why != "" {
		return &OptionError{"client", fmt.Sprintf("is a %T%s", client, why)}
	}
	return nil
}

// checkMember is for NewQuorum, whose servers must not depend on each other.
func checkMember(client redis.UniversalClient, index int) error {
	if isNil(client) {
		return &OptionError{"clients", fmt.Sprintf("has no client at index %d", index)}
	}
	why := unfit(client, "NewQuorum", "*redis.Client")
	if _, isCluster := client.(*redis.ClusterClient); isCluster && why == "" {
		why = ": a server of a quorum is standalone or behind Sentinel, and made by NewClient or NewFailoverClient"
	}
	if why != "" {
		return &OptionError{"clients", fmt.Sprintf("has a %T at index %d%s", client, index, why)}
	}
	return nil
}
