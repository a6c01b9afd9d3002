package guard

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/guard/internal/keyformat"
)

// maxStripes is the largest number of locks among which Stripe spreads keys.
const maxStripes = 65536

// Stripe is the KeyFunc of one of n locks for what key names: many ids share a bounded
// number of locks and queues. The same id has the same lock in every process. Its key is
// stripe:<n>:<i>, where i is the first 8 bytes of the SHA-256 of that of key as a big-endian number,
// modulo n. n is 1 to 65,536 ; any other n is a KeyError of each call, as is
// what WithLock would refuse in key. The lock has the name of key, see Keyf.
//
// Idle locks cost Redis nothing, so a lock for each id is the simpler choice. Stripes have
// traps:
//
//   - Two ids may share a lock. Under the lock of one, the other is re-entered instead of
//     excluded, and Held knows the lock's key, not the ids.
//   - Two stripes that are nested by hand may be taken in two orders. Give both to WithLocks,
//     which sorts them, and takes them once if they are one.
//   - n is a part of the key: while processes with two different n run, they do not exclude
//     each other. To change n, take both stripes (WithLocks) in a release between.
func Stripe(n int, key KeyFunc) KeyFunc {
	return withFormat(formatOf(key), func(ctx context.Context) (string, error) {
		if n < 1 || n > maxStripes {
			return "", &KeyError{Reason: stripesOutOfBounds(n)}
		}
		id, err := resolveKey(ctx, key)
		if err != nil {
			return "", err
		}
		return keyformat.Stripe(n, id), nil
	})
}

func stripesOutOfBounds(n int) string {
	return fmt.Sprintf("%d stripes, which is outside 1 to %d", n, maxStripes)
}
