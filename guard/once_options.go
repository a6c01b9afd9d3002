package guard

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// Bounds and defaults of Once.
const (
	defaultMaxResult = 64 << 10 // bytes
	maxMaxResult     = 1 << 20  // bytes
	minKeep          = time.Millisecond
	maxKeep          = 366 * 24 * time.Hour
)

// OnceOption configures one call of Once. Every LockOption is one. A nil OnceOption is ignored.
type OnceOption interface{ applyOnce(*once) error }

// once are the settings of one call of Once, and how it went.
type once struct {
	guardstore.Once

	hold     *hold                     // nil until the call has its lock; FailOpen may run its work without
	decode   func(result []byte) error // into what the call returns
	replayed bool                      // the result was kept, and is decoded

	lock      []LockOption
	detached  bool // the caller's context ends the wait only
	max       int  // bytes
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
	encoding  bool // the two are those of Encoding
}

func newOnce(keep time.Duration, opts []OnceOption) (once, error) {
	if keep < minKeep || keep > maxKeep {
		return once{}, &OptionError{"keep", fmt.Sprintf("%v is outside %v to %v", keep, minKeep, maxKeep)}
	}
	o := once{max: defaultMaxResult, marshal: json.Marshal, unmarshal: json.Unmarshal}
	o.Keep = keep.Truncate(time.Millisecond)
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		if err := opt.applyOnce(&o); err != nil {
			return once{}, err
		}
	}
	return o, nil
}

type onceOption func(*once) error

func (f onceOption) applyOnce(o *once) error { return f(o) }

func (f lockOption) applyOnce(o *once) error { o.lock = append(o.lock, f); return nil }
func (f callOption) applyOnce(o *once) error { o.lock = append(o.lock, f); return nil }

// AtMostOnce has Once never run fn a second time where it is not known how far the first run came: after a
// crash, or a loss of the lock. All calls get ErrUnknownOutcome then, until keep has passed, or until an operator calls
// Guard.Forget. With FailOpen it is an OptionError.
func AtMostOnce() OnceOption {
	return onceOption(func(o *once) error { o.AtMostOnce = true; return nil })
}

// Detached has ctx end the wait, but not fn: neither its end nor its deadline cuts short work that the caller will ask
// for again. The context of fn keeps the values of ctx, and ends with the lock. Bound fn by a timeout of its own, or by
// MaxHold. Where ctx is the context of work under another lock, fn ends with ctx all the same. The HTTP and gRPC adapters set it.
func Detached() OnceOption {
	return onceOption(func(o *once) error { o.detached = true; return nil })
}

// Fingerprint says what goes into the work, such as the body of a request. A call of the key
// with other parts gets ErrOtherInput, whether the work runs or has ended. What Redis has of the parts is a SHA-256
// hash. Calls without a Fingerprint match all.
func Fingerprint(parts ...[]byte) OnceOption {
	h := sha256.New()
	for _, part := range parts {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a Hash returns no error
		h.Write(part)
	}
	sum := base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	return onceOption(func(o *once) error { o.Fingerprint = sum; return nil })
}

// MaxResult is how many bytes a result has at most as it is encoded; a larger one is not kept. The default is 64 KiB, the bounds are 1
// byte and 1 MiB: beyond them it is an OptionError.
func MaxResult(bytes int) OnceOption {
	return onceOption(func(o *once) error {
		if bytes < 1 || bytes > maxMaxResult {
			return &OptionError{"MaxResult", fmt.Sprintf("%d bytes is outside 1 to %d", bytes, maxMaxResult)}
		}
		o.max = bytes
		return nil
	})
}

// Encoding sets how a result is written and read. The default is json.Marshal and json.Unmarshal, and a result that
// they do not give back as it was is not kept: ErrNotKept. A method Equal of a type counts; within an any, a number
// may come back as a float64 of the same value, and lists and maps as []any and map[string]any. What an Encoding
// gives back is not compared. unmarshal is given a pointer to a zero value of the result's type, and bytes
// of its own. Nil functions are an OptionError. They may be called from many goroutines.
func Encoding(marshal func(any) ([]byte, error), unmarshal func([]byte, any) error) OnceOption {
	return onceOption(func(o *once) error {
		if marshal == nil || unmarshal == nil {
			return &OptionError{"Encoding", "needs two functions, one is nil"}
		}
		o.marshal, o.unmarshal, o.encoding = marshal, unmarshal, true
		return nil
	})
}
