package guard

import (
	"context"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

// Bounds and defaults of the options.
const (
	minTTL            = 100 * time.Millisecond
	maxTTL            = 24 * time.Hour
	DefaultTTL        = 30 * time.Second
	DefaultPrefix     = "redlatch"
	maxMetadataLength = 256 // bytes

	defaultStoreTimeout   = 2 * time.Second
	defaultHandoverWindow = 5 * time.Millisecond

	// Forever, given to Wait, waits until the caller's context ends.
	Forever time.Duration = math.MaxInt64
)

// Option configures a Guard. A nil Option is ignored.
type Option interface{ applyGuard(*config) error }

// LockOption configures one call. Given to New it is the Guard's default. The order of
// precedence is: the call, the adapter, the Guard, the default. A nil LockOption is
// ignored.
type LockOption interface {
	Option
	OnceOption
	applyLock(*settings) error
}

// config is what the options of New say.
type config struct {
	lock         settings
	prefix       string // "" = DefaultPrefix
	handover     time.Duration
	storeTimeout time.Duration
	replicas     replicas
	observers    observers
	onClients    []func(client redis.UniversalClient)
	instanceName *string // nil = the default
}

// settings are those of one call.
type settings struct {
	ttl          time.Duration
	wait         time.Duration
	maxHold      time.Duration
	minHold      time.Duration
	waitSet      bool
	failOpen     bool
	asyncRelease bool
	limit        guardstore.Limit
	once         *once  // of Once, nil else
	name         string // "" = none was given, see formats
	metadata     string
	metadataOf   func(ctx context.Context) string // in place of metadata, until the call is made
}

func newConfig(opts []Option) (config, error) {
	c := config{
		lock:         settings{ttl: DefaultTTL, wait: Forever},
		handover:     defaultHandoverWindow,
		storeTimeout: defaultStoreTimeout,
	}
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		if err := opt.applyGuard(&c); err != nil {
			return config{}, err
		}
	}
	if err := c.lock.checkHold(); err != nil {
		return config{}, err
	}
	return c, nil
}

// with gives the settings of a call that was given opts.
func (s settings) with(opts []LockOption) (settings, error) {
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		if err := opt.applyLock(&s); err != nil {
			return settings{}, err
		}
	}
	if err := s.checkHold(); err != nil {
		return settings{}, err
	}
	return s, nil
}

type lockOption func(*settings) error

func (o lockOption) applyLock(s *settings) error { return o(s) }
func (o lockOption) applyGuard(c *config) error  { return o(&c.lock) }

type guardOption func(*config) error

func (o guardOption) applyGuard(c *config) error { return o(c) }

// TTL sets how long Redis keeps a lock without a renewal: the time to recover after
// the holder crashed. A living holder renews it every third of d. The default is
// 30 s, the bounds are 100 ms and 24 h: beyond them it is an OptionError. d is cut to whole
// milliseconds.
func TTL(d time.Duration) LockOption {
	return lockOption(func(s *settings) error {
		if d < minTTL || d > maxTTL {
			return &OptionError{"TTL", fmt.Sprintf("%v is outside %v to %v", d, minTTL, maxTTL)}
		}
		s.ttl = d.Truncate(time.Millisecond)
		return nil
	})
}

// Wait sets the longest wait for a busy lock. 0 tries once, as NoWait; Forever, the
// default, waits until the caller's context ends. A negative d, and one above 0 and below 1 ms, is an OptionError. An adapter
// has a default of its own, such as 2 s for HTTP.
func Wait(d time.Duration) LockOption {
	return lockOption(func(s *settings) error {
		if err := checkDuration("Wait", d); err != nil {
			return err
		}
		s.wait, s.waitSet = d, true
		return nil
	})
}

// NoWait tries once: a busy lock is a BusyError at once.
func NoWait() LockOption { return Wait(0) }

// MaxHold caps a hold. After d, renewal stops and the work's context ends with a LostError
// whose Cause is ErrMaxHold. The lock itself stays taken until the work returns or the ttl has
// run out. 0, the default, is no cap. A negative d, and one above 0 and below 1 ms, is an OptionError.
func MaxHold(d time.Duration) LockOption {
	return lockOption(func(s *settings) error {
		if err := checkDuration("MaxHold", d); err != nil {
			return err
		}
		s.maxHold = d
		return nil
	})
}

// FailOpen makes WithLock and Do run the work without a lease when acquiring ended in a
// StoreError. Observers are notified (EventFailedOpen), and the work sees Held = false. Acquire
// refuses the option.
//
// The first call that gets no answer takes a StoreTimeout to know. The Guard remembers it,
// for 30 s at most, and finds out asynchronously when there is an answer again: until
// then, calls with FailOpen run their work at once, without a lease, unless their own Guard
// holds the key. So work also runs without a lock for up to a second after Redis is back. On
// a cluster that is remembered for each node.
func FailOpen() LockOption {
	return lockOption(func(s *settings) error { s.failOpen = true; return nil })
}

// AsyncRelease lets WithLock, WithLocks and Do return when their work is done, without waiting for the
// answer to the release: a call on a free key costs one round trip instead of two. It is off by
// default, and not for what Acquire and Lead took: their Release is asked for. Nor is it for
// Once, whose release keeps the result.
//
// The release goes out at once, asynchronously. A caller of the same Guard that wants the key is
// given it, or claims it when the release was answered; one of another process waits for the release
// as ever. A caller that wants the key with other options (Limit, Shared, TTL) and NoWait may find it still
// taken. Shutdown waits for releases on their way, and Close for half a second.
//
// WithLock still returns a loss that is known when the work is done: the context of the work has ended
// by then. It cannot return a loss that only the release would show, as of a key that was deleted since the
// last renewal. Observers are notified of that: an EventLoss, and a HoldEnd, which comes when the
// release was answered, from a goroutine of the Guard. So is a release that is not answered for
// StoreTimeout (EventReleaseFailure).
func AsyncRelease() LockOption {
	return lockOption(func(s *settings) error { s.asyncRelease = true; return nil })
}

// checkDuration refuses a negative duration, and a number that was given without its unit.
func checkDuration(option string, d time.Duration) error {
	switch {
	case d < 0:
		return &OptionError{option, fmt.Sprintf("%v is negative", d)}
	case d > 0 && d < time.Millisecond:
		return &OptionError{option, fmt.Sprintf("%v is less than 1ms: give it a unit, such as %d*time.Second", d, d)}
	}
	return nil
}

// Name labels a kind of lock ("order-payment") in errors and telemetry. Keep the number
// of different names low: never put a key into it. An empty name is an OptionError. The default is the format of Keyf
// with a * for each verb ("order:*" of "order:%d"). The lock of any other KeyFunc has no name: errors and
// telemetry leave it out, as a part of a key may be personal data.
func Name(name string) LockOption {
	return lockOption(func(s *settings) error {
		if name == "" {
			return &OptionError{"Name", "is empty"}
		}
		s.name = name
		return nil
	})
}

// Metadata is a UTF-8 text of at most 256 bytes. Callers that find the lock busy see it as
// BusyError.Holder. It takes the place of an earlier MetadataFunc.
func Metadata(text string) LockOption {
	return lockOption(func(s *settings) error {
		if err := checkMetadata("Metadata", text); err != nil {
			return err
		}
		s.metadata, s.metadataOf = text, nil
		return nil
	})
}

// MetadataFunc is Metadata that depends on the context of each call, such as the ID of a
// request. A call or a route can set another text by Metadata. fn is called with the
// caller's context once per call, before anything is sent, and not for a re-entry; from
// many goroutines at a time. What it returns has the bounds of Metadata, or the call ends
// in an OptionError; a panic of fn reaches the caller. It takes the place of an earlier
// Metadata. A nil fn is an error.
func MetadataFunc(fn func(ctx context.Context) string) Option {
	return guardOption(func(c *config) error {
		if fn == nil {
			return &OptionError{"MetadataFunc", "was given a nil function"}
		}
		c.lock.metadata, c.lock.metadataOf = "", fn
		return nil
	})
}

// callMetadata is what MetadataFunc gives for a call.
func (s settings) callMetadata(ctx context.Context) (string, error) {
	text := s.metadataOf(ctx)
	return text, checkMetadata("MetadataFunc", text)
}

func checkMetadata(option, text string) error {
	switch {
	case len(text) > maxMetadataLength:
		return &OptionError{option, fmt.Sprintf("has %d bytes, the most is %d", len(text), maxMetadataLength)}
	case !utf8.ValidString(text):
		return &OptionError{option, "is not UTF-8"}
	}
	return nil
}

// Prefix is the namespace of every Redis key and channel. Guards with different prefixes do
// not see each other's locks. The default is "redlatch". A prefix that is empty, has a brace in
// it, or is not UTF-8 is an OptionError. NewWithStore refuses it: keys are named by the store.
func Prefix(prefix string) Option {
	return guardOption(func(c *config) error {
		if fault := redisstore.PrefixFault(prefix); fault != "" {
			return &OptionError{"Prefix", fault}
		}
		c.prefix = prefix
		return nil
	})
}

// Observe adds an Observer. Given more than once, observers nest in the order given. A
// nil Observer is an error.
func Observe(o Observer) Option {
	return guardOption(func(c *config) error {
		if isNil(o) {
			return &OptionError{"Observe", "was given a nil Observer"}
		}
		c.observers = append(c.observers, o)
		return nil
	})
}

// OnClient has fn called with each client of go-redis that New makes, before it sends anything: the place to add hooks
// of redisotel, or of a logger, that see the Guard's commands. A Guard makes two clients, and one for
// a lock that is given back after Close. fn may be called from several goroutines; it must not close the client. Given more
// than once, the functions are called in the order given. A nil fn is an error, and NewWithStore refuses the option.
func OnClient(fn func(client redis.UniversalClient)) Option {
	return guardOption(func(c *config) error {
		if fn == nil {
			return &OptionError{"OnClient", "was given a nil function"}
		}
		c.onClients = append(c.onClients, fn)
		return nil
	})
}

// onClient calls the functions of OnClient.
func (c *config) onClient(client redis.UniversalClient) {
	for _, fn := range c.onClients {
		fn(client)
	}
}

// HandoverWindow is how long a lock that this Guard holds may be passed on between its
// own callers, without asking Redis, before others get their turn; that of Shared is also
// joined by readers for so long. A longer window
// means more work done under contention and longer waits elsewhere. 0 is strict order
// through Redis. The default is 5 ms. A d below 0 or above a minute, and one above 0 and below 1 ms,
// is an OptionError.
func HandoverWindow(d time.Duration) Option {
	return guardOption(func(c *config) error {
		if d < 0 || d > time.Minute {
			return &OptionError{"HandoverWindow", fmt.Sprintf("%v is outside 0 to %v", d, time.Minute)}
		}
		if err := checkDuration("HandoverWindow", d); err != nil {
			return err
		}
		c.handover = d
		return nil
	})
}

// StoreTimeout is how long a call goes without any answer from Redis before it is a
// StoreError. Until then, a command that goes unanswered for half of it, or for 1 s, is
// sent again. The default is 2 s. Less than 10 ms is an OptionError. With Sentinel and on a
// cluster, make it longer than a failover takes: then calls outlast one.
func StoreTimeout(d time.Duration) Option {
	return guardOption(func(c *config) error {
		if d < 10*time.Millisecond {
			return &OptionError{"StoreTimeout", fmt.Sprintf("%v is less than %v", d, 10*time.Millisecond)}
		}
		c.storeTimeout = d
		return nil
	})
}

// patience is how long one attempt may take: however long a call may take, a server
// that hangs or was replaced must be noticed soon.
func (c *config) patience() time.Duration {
	return min(c.storeTimeout/2, time.Second+c.replicas.timeout)
}
