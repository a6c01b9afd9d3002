// Package redisstore is the guardstore.Store of one Redis: standalone, with Sentinel, or a
// cluster. It knows the keys, the scripts and what their replies mean.
//
// # In Redis
//
// For the key order:42 and the prefix redlatch, redlatch:{order:42} is a hash with a field for each
// owner: its counter, fence, lease and metadata. The hash has a ttl, and no hash means that the key is free. Holders that
// tolerate others have @fence, the highest, beside them, and :holders, an index. Next to it
// redlatch:{order:42}:queue has the claims that wait, :seen when each asked last, and :ended the owners that ended in doubt, and a
// fence that is ahead of the server's clock. A lock's keys share one slot of a
// cluster: LockKey escapes a key for that. Messages go to the channel
// redlatch:grant:<instance>.
//
// Each step is one script in lua/, on the keys of one lock, and has a variable in scripts.go. It
// names the owner that it is for, a token made for one claim and never used again: a command that
// arrives late, or twice, changes nothing for the next holder. A Store knows what a server's clock showed (serverclock.go): no
// fence is below an earlier one where that clock is set back. A script reads no clock but the
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
