package inspect

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect/internal/meter"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

// Inspector looks at the locks of one Redis: standalone, with Sentinel, or a cluster. Its
// methods may be called from many goroutines. Those of a nil or zero Inspector, and of one
// that was made with a bad option, return a guard.OptionError.
type Inspector struct {
	client redis.UniversalClient
	prefix string
	err    error // what New was given
}

// Option configures an Inspector. A nil Option is ignored.
type Option func(*Inspector) error

// Prefix must equal the prefix of the Guards: not empty, UTF-8, no braces. The
// default is guard.DefaultPrefix.
func Prefix(prefix string) Option {
	return func(i *Inspector) error {
		if fault := redisstore.PrefixFault(prefix); fault != "" {
			return &guard.OptionError{Option: "Prefix", Reason: fault}
		}
		i.prefix = prefix
		return nil
	}
}

// New makes an Inspector. It sends nothing, and you need not close anything: the client stays
// yours. Give it a client that reads from primaries: a replica shows the past, and no command can
// step in there. If the client is nil or an option is out of its bounds, the methods return
// that error.
func New(client redis.UniversalClient, opts ...Option) *Inspector {
	i := &Inspector{client: client, prefix: guard.DefaultPrefix}
	if r := reflect.ValueOf(client); !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil() {
		i.err = &guard.OptionError{Option: "client", Reason: "is nil"}
	}
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		i.err = cmp.Or(i.err, opt(i))
	}
	return i
}

// String says where it looks: which Redis, database and prefix. User and password are not in it.
func (i *Inspector) String() string {
	if i.made() != nil {
		return "no Redis"
	}
	at, database := "Redis", 0
	switch client := i.client.(type) {
	case *redis.Client:
		options := client.Options()
		at, database = "Redis at "+options.Addr, options.DB
		if options.Addr == sentinelAddr {
			at = "Redis found by Sentinel"
		}
	case *redis.ClusterClient:
		at = "Redis Cluster at " + strings.Join(client.Options().Addrs, ", ")
	}
	if database != 0 {
		at += fmt.Sprintf(", database %d", database)
	}
	return at + ", prefix " + i.prefix
}

// sentinelAddr is what go-redis says of a client that asks Sentinel where its Redis is.
const sentinelAddr = "FailoverClient"

// ready says what keeps the Inspector from being used.
func (i *Inspector) ready(ctx context.Context) error {
	if err := i.made(); err != nil {
		return err
	}
	if ctx == nil {
		return &guard.OptionError{Option: "ctx", Reason: "is nil"}
	}
	return nil
}

func (i *Inspector) made() error {
	if i == nil || i.client == nil && i.err == nil {
		return &guard.OptionError{Option: "Inspector", Reason: "was not made by New"}
	}
	return i.err
}

func checkKey(key string) error {
	switch {
	case key == "":
		return &guard.KeyError{Reason: "empty"}
	case len(key) > guard.MaxKeyLength:
		return &guard.KeyError{Key: key, Reason: fmt.Sprintf("%d bytes, the longest is %d", len(key), guard.MaxKeyLength)}
	case !utf8.ValidString(key):
		return &guard.KeyError{Key: key, Reason: "not UTF-8"}
	}
	return nil
}

// Get shows how the lock of a key stands, and its record: one script, at one instant. A key that
// is free is an Info without Holders, and no error.
//
// Errors are a guard.KeyError, a guard.OptionError, a FormatError, and a guard.StoreError
// when Redis did not answer or refused, which also matches the end of ctx.
func (i *Inspector) Get(ctx context.Context, key string) (Info, error) {
	if err := i.ready(ctx); err != nil {
		return Info{Key: key}, err
	}
	if err := checkKey(key); err != nil {
		return Info{Key: key}, err
	}
	look, begun := i.newLook(key), time.Now()
	if err := lookScript.run(ctx, i.client, []*call{look}); err != nil {
		return Info{Key: key}, failed("inspect", key, err)
	}
	meter.Note(ctx, begun, look.err)
	info, err := i.read(key, look)
	if err != nil {
		return Info{Key: key}, err
	}
	i.newNames().put(ctx, info)
	return info, nil
}

// mostWaiting is how many waiting instances of one lock are shown.
const mostWaiting = 100

func (i *Inspector) newLook(key string) *call {
	lock := i.lockKey(key)
	return &call{
		keys: []string{lock, lock + ":queue", lock + ":ended", lock + ":seen", lock + ":wake", redisstore.RecordKey(i.prefix, key)},
		args: []any{mostWaiting},
	}
}

func (i *Inspector) read(key string, c *call) (Info, error) {
	if c.err != nil {
		return Info{Key: key}, failed("inspect", key, c.err)
	}
	return parseLook(key, c.reply)
}

func (i *Inspector) lockKey(key string) string { return redisstore.LockKey(i.prefix, key) }

func (i *Inspector) channel(instance string) string { return redisstore.Channel(i.prefix, instance) }
