package redisconn

import (
	"reflect"

	"github.com/redis/go-redis/v9"
)

// Unfit says what keeps a client, which is not nil, from being used, to be read after what
// it is; nothing if it may be. taken are the kinds that the constructor takes.
func Unfit(client redis.UniversalClient, constructor, taken string) string {
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
