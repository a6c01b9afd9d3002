package guardweb

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
)

// mask has a word for each key, and remembers which key a word stands for.
type mask struct {
	secret []byte

	mu   sync.Mutex
	keys map[string]string
}

const (
	maskPrefix = "key-"
	maskKnows  = 2 * maxKept // words at most; then it forgets them, and the next list makes them again
)

func newMask() *mask {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it does not fail
	return &mask{secret: secret, keys: make(map[string]string)}
}

// The secret keeps a viewer from finding a key by trying texts.
func (m *mask) word(key string) string {
	mac := hmac.New(sha256.New, m.secret)
	mac.Write([]byte(key))
	word := maskPrefix + hex.EncodeToString(mac.Sum(nil))[:16]
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.keys) >= maskKnows {
		clear(m.keys)
	}
	m.keys[word] = key
	return word
}

// word returns the word that stands for a key on the page and in its links.
func (h *handler) word(key string) string {
	if h.mask == nil {
		return key
	}
	return h.mask.word(key)
}

// unmask returns the key that a word stands for. A text that is not a word is a key.
func (h *handler) unmask(given string) (string, error) {
	if h.mask == nil || !strings.HasPrefix(given, maskPrefix) {
		return given, nil
	}
	h.mask.mu.Lock()
	defer h.mask.mu.Unlock()
	key, ok := h.mask.keys[given]
	if !ok {
		return "", errGone
	}
	return key, nil
}
