// Package redisconn brings commands to one Redis and their replies back. It knows sockets,
// and nothing of locks.
//
// # What it does
//
// A [Client] has connections of its own, made with the options of the user's client, so that
// user code cannot exhaust them and deadlines hold on them. It has three sets: one for
// callers' commands, one for pipelines (renewals) and messages, and one for commands that
// wait for replicas.
//
// A caller's command goes out by itself as long as few are on their way: two to a near Redis, four
// to a distant one. Commands that queue meanwhile share the next write (combiner), and those of
// one [Batch] share one script. No command waits for company.
//
// Each call ends with its context. A lone caller runs its command itself, on a connection that is
// closed under it when it leaves (conn). Where many share a connection, the command goes on
// asynchronously, and its reply goes nowhere.
//
// A command is sent once. It is sent again only where Redis said that it did nothing: a
// script that it did not know by name. What went unanswered is the caller's to repeat.
//
// # When the network fails
//
// An attempt ends after Options.AttemptTimeout at the latest, dials and user code included.
// A dial goes on then, and its connection is for the next dial. At most eight dials to a
// server are under way (dials).
//
// Once an answer failed to come, connections that lie idle are not used again: they may lead
// to where nobody listens any more. A failed dial is not counted by go-redis's pool, which
// would else refuse to dial for up to a second. With Sentinel, a Client asks once a second
// which server is the primary, while it sends, and ends connections to one that was replaced. On a
// cluster each node has a queue of its own, so that one that hangs holds up no other, and a lock
// goes on while its slot moves: nobody else gets it before all its keys have moved.
//
// # What it relies on, and what it never does
//
// It relies on go-redis and on the ground floor, clock and task. It never reads a reply, never
// repeats a command that may have taken effect, and never touches the user's client.
package redisconn
