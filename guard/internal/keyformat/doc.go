// Package keyformat spells keys of several parts so that different parts never make the same
// key: a part's own ':' is escaped, whatever fmt made it of.
//
// It relies on package fmt alone. It never judges a finished key, and knows nothing of Redis:
// how a key is escaped there is package rediskey's.
package keyformat
