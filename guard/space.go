package guard

import (
	"context"
	"reflect"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// space is where the locks of a Guard are, as far as this process can tell. Guards of equal spaces
// exclude each other. The zero space equals none.
type space struct {
	at     any // the address of one server; else the client or the store
	db     int
	prefix string
}

// failover is the address that go-redis gives every client that it makes for Sentinel.
const failover = "FailoverClient"

func spaceOf(client redis.UniversalClient, prefix string) space {
	if c, ok := client.(*redis.Client); ok && c.Options().Addr != failover {
		return space{c.Options().Addr, c.Options().DB, prefix}
	}
	return space{at: client, prefix: prefix}
}

func spaceOfStore(store guardstore.Store) space {
	if reflect.ValueOf(store).Kind() != reflect.Pointer {
		return space{} // it may not be comparable
	}
	return space{at: store}
}

// checkOtherGuards refuses a key that ctx holds by another Guard, if the call would wait for itself.
func (g *Guard) checkOtherGuards(ctx context.Context, c *call) error {
	if g.space.at == nil {
		return nil
	}
	for l := leaseIn(ctx); l != nil; l = l.outer {
		excludes := l.exclusive() || c.limit == guardstore.Exclusive
		if l.hold.g != g && l.hold.g.space == g.space && l.Key() == c.lock.Key && excludes && l.Err() == nil {
			return &OptionError{"ctx", "holds the key by another Guard of the same Redis and Prefix: the call would wait for itself"}
		}
	}
	return nil
}
