package keyformat

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Stripe is the key of one of n locks, n positive, which key alone chooses.
func Stripe(n int, key string) string {
	sum := sha256.Sum256([]byte(key))
	i := binary.BigEndian.Uint64(sum[:]) % uint64(n)
	return "stripe:" + strconv.Itoa(n) + ":" + strconv.FormatUint(i, 10)
}
