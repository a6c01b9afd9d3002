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
// set it to the route or the type of the task; else it is the format of guard.Keyf. A lock without a name has
// none here, and after the first 1,000 names it is "other". A re-entry makes no span.
//
//	redlatch.lock.name      both     the name
//	redlatch.lock.outcome   acquire  acquired, busy, timeout, canceled, error, closed
//	                        hold     released, lost, max_hold, closed
//	error.type              both     lock_busy, lock_wait_timeout, lock_held_over, lock_full, deadline_exceeded,
//	                                 lock_lost, lock_max_hold, lock_revoked, lock_released,
//	                                 lock_store_unavailable, shutting_down; _OTHER for errors of other packages
//	redlatch.lock.mode      both     limit or shared, for guard.Limit and guard.Shared only
//	redlatch.lock.limit     both     n of guard.Limit; not on metrics
//	redlatch.lock.queued    acquire  whether the lock was busy and was waited for
//	redlatch.lock.local     acquire  whether it was then handed over within the process
//	redlatch.lock.holder    acquire  guard.Metadata of the holder, if it was busy and has any
//	redlatch.lock.fence     hold     the fencing token
//	redlatch.lock.key       both     the key, with WithKey
//	redlatch.lock.key_hash  both     its hash, with WithKeyHash
//
// A span whose lock was not acquired, or was lost, has the status Error and an error.type, and
// so does the metric. The text of the status is the error.type: an error's own text may name keys. A cancelled
// context of a caller is no error; a deadline that passed is one. What the work returns is for the work's own
// span. A release that Redis did not confirm makes the hold an error, too: until its ttl ends, others
// may be kept waiting.
//
// The span of a hold has two events, each with an error.type: redlatch.lock.loss and redlatch.lock.renewal_failure.
// Metrics count everything else.
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
//	redlatch.lock.wait.duration  s           histogram, by name, outcome and error.type
//	redlatch.lock.wait.oldest    s           how long the oldest caller has waited that waits now, by name
//	redlatch.lock.hold.duration  s           histogram, by name, outcome and error.type
//	redlatch.lock.active         {lock}      held now, by name
//	redlatch.lock.waiting        {caller}    waiting now, by name
//	redlatch.lock.losses         {hold}      holds that ended under their work, by name and error.type: lock_lost,
//	                                         lock_max_hold, lock_revoked, shutting_down
//	redlatch.lock.renewals       {renewal}   by name, and error.type of those that failed
//	redlatch.lock.handovers      {handover}  by name
//	redlatch.lock.failed_open    {call}      by name and error.type
//	redlatch.once.recorded       {call}      replays of Once, and what it refused or did not keep; by name and error.type
//
// The counters of a name begin with 0 when the name is first seen, so that an alert on their increase sees
// the first loss. Set the providers before that.
//
// No metric ever has the key: there are as many series as there are names, and after the first 1,000 names the
// name is "other". The histograms have bounds from 1 ms to 30 s (wait) and from 1 ms to 5 min (hold); a View changes
// them. With the SDK's default filter they have exemplars.
//
// # Across tasks
//
// Guard does not propagate traces. To have a task's lock in the trace of what enqueued
// the task, inject into the task's headers and extract in a middleware outside the
// guard's; see the example.
package tracing
