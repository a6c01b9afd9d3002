// Package keyformat makes keys of several parts, so that different parts never make the same key: it
// escapes a part's own ':', whatever fmt made the part of. It also makes the names of locks from
// formats, in bounded number: each name is a metric of its own.
//
// It does not judge a finished key, and knows nothing of Redis: redisstore escapes a key there.
package keyformat
