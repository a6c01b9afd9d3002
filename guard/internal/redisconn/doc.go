// Package redisconn brings commands to one Redis and their replies back. It knows go-redis,
// and nothing of locks.
//
// # What it does
//
// A [Client] makes clients of go-redis with the options of the user's client, so that user code cannot exhaust
// their connections and deadlines hold on them: one for callers' commands, and one for renewals (pipelines) and messages.
//
// A caller sends its command itself while fewer than four are on their way to that server (inFlight). Above that,
// commands queue. A caller that comes back from Redis leaves its place to a goroutine, which sends all that queued in
// one write (combiner).
// Commands of one script share calls of it (link.sendAll). No command waits for others.
//
// Thousands of cycles a second (acquire and release) for each number of writes on their way, on two cores, with
// Redis 7.0 on the same machine, and through a proxy that adds 1 ms (64 and 512 callers beside other load):
//
//	              callers    1     2     4     8
//	near                8   21    24    25    25
//	                   64   57    65    66    66
//	                  512   74    91    82    96
//	1 ms away           8  1.8   2.4   2.4   2.6
//	                   64   12    14    16    17
//	                  512   21    39    42    41
//
// 16 is no better than 4. In short runs in turn, with 1, 8, 64 and 512 callers: near 6, 24, 48, 71 with 16 and 6, 23, 54, 65
// with 4; 1 ms away, with 8, 64 and 512 callers, 2.5, 13, 47 and 2.4, 13, 49.
//
// # When a caller leaves
//
// A deadline ends a call in time: go-redis heeds it. A caller that is canceled while its command is in the queue, or
// waits for a connection, leaves at once; while the command is on its way, it leaves with the reply, or when the
// attempt ends, after Options.AttemptTimeout at the latest.
//
// # When the network fails
//
// A command is sent once. It is sent again only where Redis said that it did nothing: a script that it did not know
// by name (link.exchange). The caller repeats what went unanswered. The errors of connections name the server.
//
// go-redis's pools do the rest. When a network forgets connections, each idle one costs an attempt: at most
// four of callers, and one of renewals. After as many failed dials as a pool is large, go-redis dials once
// a second. A dial that takes longer than its caller waits continues until the DialTimeout of the user's client, and the next
// caller gets its connection.
//
// With Sentinel, a Client asks once a second which server is the primary, while it sends, and closes connections to one
// that was replaced. On a cluster each node has a queue of its own, so that a node that hangs holds up no other. go-redis does neither
// for a client that is made with the dialer of another, nor for a pipeline to several nodes.
//
// # What it relies on, and what it never does
//
// It relies on go-redis and on the packages clock and task. It never reads a reply, never repeats a command that may
// have taken effect, and never uses the user's client.
package redisconn
