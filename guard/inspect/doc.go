// Package inspect shows the holders of a lock, since when they hold it, the processes that wait, and
// what guard.Once recorded of its work. It also revokes or breaks a hold, or forgets a record. It is for
// operators and for tools. It is not part of package guard, because it sends commands that a Guard must
// not send.
//
//	i := inspect.New(rdb)
//	info, err := i.Get(ctx, "order:42")
//	if len(info.Holders) > 0 {
//		there, err := i.Revoke(ctx, "order:42", info.Holders[0].Fence)
//	}
//
// Looking writes nothing. What it shows holds no secret: a record is shown without its result,
// an instance by its name (guard.Instance), or by the first 8 digits of its id, and never by an
// owner token.
//
// # Stepping in
//
// Revoke is the safe way. The holder is notified at once: its work's context ends with a
// LostError whose Cause is guard.ErrRevoked, and its next renewal is refused, in case
// the message is lost. No other caller gets the key before the work returned or the lease ended. Break
// frees the key at once, for a holder that you know is dead: if it lives, two hold the key
// until its context ends.
//
// Both name the fence of the hold that they mean. Another hold is never hit, however late
// the call is. Within one process, callers hand a hold on without a command to Redis: what ends is
// the hold of the caller that has it then.
//
// # Records
//
// Where a process crashed within guard.Once, its record stays unfinished. With guard.AtMostOnce
// the work does not run again until a person has found out whether it had an effect, and calls Forget. Forget
// refuses to delete the record of work that is running: revoke its holder first.
//
// # Quorums
//
// The servers of a quorum (package quorum) know nothing of each other: make an Inspector
// for each of them. Each has a fence of its own for the same hold, so look at a server
// before you step in there. A hold ends when a majority of its servers revoked it.
package inspect
