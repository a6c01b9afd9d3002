// Package tracing shows in OpenTelemetry how long locks are waited for and held.
//
//	g, err := guard.New(rdb, guard.Observe(tracing.New()))
//
// It uses the providers that are set globally, or those of WithTracerProvider and
// WithMeterProvider, through the OpenTelemetry API alone: which SDK runs, and whether one
// does, is the program's choice.
//
// # Spans
//
// A lock makes two spans, both of kind INTERNAL and both children of the caller's span:
// "acquire <name>" for the wait and "hold <name>" for the hold. The work runs in the
// context of the second, so that its own spans are below it. <name> is guard.Name. Adapters
// set it to the route or the type of the task; else it is the format of guard.Keyf, or
// "default". A re-entry makes no span, but an event on the hold that it joins.
//
//	guard.lock.name       both     the name
//	guard.lock.outcome    acquire  acquired, busy, timeout, canceled, error, closed
//	                      hold     released, lost, max_hold, closed (guard's Outcome constants)
//	error.type            both     lock_busy, lock_wait_timeout, lock_held_over, deadline_exceeded,
//	                               lock_lost, lock_max_hold, lock_revoked, lock_released,
//	                               lock_upgrade, store_unavailable, guard_closed; _OTHER for what is not guard's
//	guard.lock.mode       both     limit or shared, for guard.Limit and guard.Shared only
//	guard.lock.limit      both     n of guard.Limit; not on metrics
//	guard.lock.queued     acquire  whether the lock was busy and was waited for
//	guard.lock.local      acquire  whether it was then handed over within the process
//	guard.lock.holder     acquire  guard.Metadata of the holder, if it was busy and has any
//	guard.lock.fence      hold     the fencing token
//	guard.lock.key        both     the key, with WithKey
//	guard.lock.key_hash   both     its hash, with WithKeyHash
//
// A span whose lock was not had, or was lost, has the status Error and an error.type, and
// so does the metric. That a caller's context was cancelled is no error; that its
// deadline passed is one. What the work returns is for the work's own span. A release
// that Redis did not confirm makes the hold an error, too: until its ttl ends, others
// may be kept waiting.
//
// Events: guard.lock.renewal, guard.lock.handover, guard.lock.reentry, guard.lock.loss,
// guard.lock.store_failure (a command that may be repeated), guard.lock.release_failure,
// guard.lock.failed_open; of guard.Once guard.lock.replayed, guard.lock.other_input,
// guard.lock.unknown_outcome, guard.lock.not_kept. They are on the span of the wait or the hold that they are about;
// only a store_failure of a release, and what Once found in a record, are on the caller's span.
//
// # What a wait waited for
//
// The span of a wait links to the span of the last hold that was in its way, if that was
// in this process and was sampled. For holds in other processes it links to the trace that
// the holder put into its metadata: with Metadata for one call, or for all calls of a
// Guard, those of routes and tasks included, with Traceparent:
//
//	g, err := guard.New(rdb, guard.Observe(tracing.New()), guard.MetadataFunc(tracing.Traceparent))
//
// Neither sends anything to Redis. WithoutLinks switches it off.
//
// # Metrics
//
//	guard.lock.wait.duration  s          histogram, by name, outcome and error.type
//	guard.lock.hold.duration  s          histogram, by name, outcome and error.type
//	guard.lock.active         {lock}     held now, by name
//	guard.lock.waiting        {caller}   waiting now, by name
//	guard.lock.renewals       {renewal}  by name, and error.type of those that failed
//	guard.lock.handovers      {handover} by name
//	guard.lock.failed_open    {call}     by name and error.type
//	guard.once.recorded       {call}     replays of Once, and what it refused or did not keep; by name and error.type
//
// No metric ever has the key: there are as many series as there are names. The histograms
// have bounds from 1 ms to 30 s (wait) and from 10 ms to 5 min (hold); a View changes
// them. With the SDK's default filter they have exemplars.
//
// # Across tasks
//
// Guard does not propagate traces. To have a task's lock in the trace of what enqueued
// the task, inject into the task's headers and extract in a middleware outside the
// guard's; see the example.
package tracing
