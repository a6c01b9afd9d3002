// Package redisstore is the guardstore.Store of one Redis: standalone, with Sentinel, or a
// cluster. It knows the keys, the scripts and what their replies mean.
//
// # In Redis
//
// For the key order:42 and the prefix redlatch, redlatch:{order:42} is a hash with a field for each
// owner: its counter, fence and metadata. From the second holder on, @fence is the last fence, and :holders
// has the expiry of each. The hash has a ttl, and no hash means that the key is free. Next to it
// redlatch:{order:42}:last remembers the last fence for at least a minute, :queue the claims that wait
// and the tombstones, and :seen when each asked last. A lock's keys share one slot of a
// cluster: LockKey escapes a key for that. Messages go to the channel
// redlatch:grant:<instance>.
//
// Each step is one script in lua/, on the keys of one lock, and has a variable in scripts.go. It
// names the owner that it is for, a token made for one claim and never used again: a command that
// arrives late, or twice, changes nothing for the next holder. A script reads no clock but the
// server's, and may be executed twice with the outcome of once. DEL takes a lock away.
//
// # What it relies on, and what it never does
//
// It relies on redisconn to bring commands there, and on guardstore for the contract. It never
// repeats a command, keeps no state of a lock, and never takes a reply that it does not
// understand for an answer.
//
// Who builds on it, as package quorum does, has scripts of its own: see [Store.Do] and [Load].
package redisstore
