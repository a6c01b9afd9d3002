package guardweb

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/inspect"
)

const (
	maxRows   = 1000
	listTime  = 30 * time.Second // the longest that a list may take
	listFresh = time.Second      // a list serves so long all who look,
	listShare = 20               // or this many times as long as it took
)

// found is a list of locks as they were at one time.
type found struct {
	match  string
	locks  []inspect.Info // by key
	broken []*inspect.FormatError
	more   bool // there are more than maxRows
	at     time.Time
	took   time.Duration
	err    error
}

// list makes one list at a time, for all who look.
type list struct {
	inspector *inspect.Inspector

	mu   sync.Mutex // protects last
	last *found
	busy chan struct{} // one slot: who makes a list has it
	once sync.Once
}

// get gives a list that is as new as it may be.
func (l *list) get(ctx context.Context, match string) *found {
	l.once.Do(func() { l.busy = make(chan struct{}, 1) })
	select {
	case l.busy <- struct{}{}:
	case <-ctx.Done():
		return &found{err: context.Cause(ctx)}
	}
	defer func() { <-l.busy }()
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	if last != nil && last.match == match && time.Since(last.at) < max(listFresh, listShare*last.took) {
		return last
	}
	made := l.make(ctx, match)
	if made.err == nil {
		l.mu.Lock()
		l.last = made
		l.mu.Unlock()
	}
	return made
}

// forget has the next who looks see what was just done.
func (l *list) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = nil
}

func (l *list) make(ctx context.Context, match string) *found {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	f, begun := &found{match: match}, time.Now()
	for info, err := range l.inspector.All(ctx, match) {
		var format *inspect.FormatError
		switch {
		case errors.As(err, &format):
			f.broken = append(f.broken, format)
		case err != nil:
			f.err = err
			return f
		default:
			f.locks = append(f.locks, info)
		}
		if len(f.locks)+len(f.broken) >= maxRows {
			f.more = true
			break
		}
	}
	slices.SortFunc(f.locks, func(a, b inspect.Info) int { return cmp.Compare(a.Key, b.Key) })
	f.at = time.Now()
	f.took = f.at.Sub(begun)
	return f
}

// mask puts words in place of keys, and knows the keys of those it gave.
type mask struct {
	secret []byte

	mu   sync.Mutex
	keys map[string]string
}

const (
	maskPrefix = "key-"
	maskKnows  = 10 * maxRows // words at most; those that it forgot are looked for in Redis
)

func newMask() *mask {
	m := &mask{secret: make([]byte, 32), keys: make(map[string]string)}
	_, _ = rand.Read(m.secret) // it does not fail
	return m
}

// word is of no use to whoever tries all keys: the secret is missing.
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
	found := h.list.get(ctx, "")
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
