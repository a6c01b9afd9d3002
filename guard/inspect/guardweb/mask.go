package guardweb

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
)

// mask puts words in place of keys, and remembers which key a word is for.
type mask struct {
	secret []byte

	mu   sync.Mutex
	keys map[string]string
}

const (
	maskPrefix = "key-"
	maskKnows  = 2 * maxKept // words at most; a word that it forgot is looked for in the list
)

func newMask() *mask { return &mask{secret: newSecret(), keys: make(map[string]string)} }

func newSecret() []byte {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it does not fail
	return secret
}

// digest is of no use to a viewer that tries all texts: the secret is missing.
func digest(secret []byte, text string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))[:16]
}

func (m *mask) word(key string) string {
	word := maskPrefix + digest(m.secret, key)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.keys) >= maskKnows {
		clear(m.keys)
	}
	m.keys[word] = key
	return word
}

func (m *mask) key(word string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, ok := m.keys[word]
	return key, ok
}

// word is what stands for a key on the page and in its links.
func (h *handler) word(key string) string {
	if h.mask == nil {
		return key
	}
	return h.mask.word(key)
}

// unmask finds the key that a word stands for. What is no word is a key.
func (h *handler) unmask(ctx context.Context, given string) (string, error) {
	if h.mask == nil || !strings.HasPrefix(given, maskPrefix) {
		return given, nil
	}
	if key, ok := h.mask.key(given); ok {
		return key, nil
	}
	found := h.list.get(ctx)
	for _, info := range found.locks {
		if h.mask.word(info.Key) == given {
			return info.Key, nil
		}
	}
	if found.err != nil {
		return "", found.err
	}
	return "", errGone
}
