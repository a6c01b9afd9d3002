// Package guardcron runs the jobs of robfig/cron on one of many instances.
//
//	c := cron.New()
//	locked := guardcron.Job(g, guard.Key("report"), guard.MinHold(50*time.Second))
//	_, err := c.AddJob("0 * * * *", cron.NewChain(locked).Then(cron.FuncJob(report)))
//
// A lock alone does not run a job once per tick. The clocks of instances differ: a job of
// 0.3 s gives the lock back before the tick of another instance, and runs again.
// guard.MinHold keeps the key taken for a while after the grant, even if the job ends
// sooner. Choose it longer than the ticks of instances can be apart, and shorter than the
// time between two ticks. A schedule such as "@every 1h" counts from the start of its
// process, so that each instance ticks at another time; "0 * * * *" and "@hourly" are the
// same minute everywhere.
//
// Each tick runs at most once while Redis keeps its data. When a process crashes under its
// job, that tick does not run again, and ticks are skipped until the ttl of the lock has
// passed.
//
// Make a job that must stop when its lock is lost a JobFunc, which gets the lock's context.
//
// Stop the cron, and wait for its jobs, before you shut down the Guard.
package guardcron
