// Package guardgocron runs the jobs of gocron on one of many instances.
//
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(
//		guardgocron.Locker(g, guard.MinHold(50*time.Second))))
//	_, err = s.NewJob(gocron.CronJob("0 * * * *", false), gocron.NewTask(report), gocron.WithName("report"))
//
// runs each tick at most once, on the first instance that gets the lock. There are three ways:
//
//   - Locker locks each run of a job, by the job's name. Instances share the work.
//   - Elector runs all jobs on one instance. When that ends or dies, another instance follows.
//   - Task is for a job that has to stop when its lock is lost: its context ends.
//
// # At most once per tick
//
// A lock alone does not run a job once per tick. The clocks of instances differ, and so do
// their ticks: a job of 0.3 s gives the lock back before the tick of another instance, and
// runs again. guard.MinHold keeps the key taken for a while after the grant, even if the job
// ends sooner. Choose it longer than the ticks of instances can be apart, and shorter than
// the time between two ticks.
//
// Each tick runs at most once while Redis keeps its data. When a process crashes under its
// job, that tick does not run again, and ticks are skipped until the ttl of the lock has
// passed.
//
// The ticks of all instances must fall together. Those of a gocron.CronJob do. A
// gocron.DurationJob begins when its process does: give it gocron.WithStartAt.
//
// # Shutting down
//
// Shut down the scheduler before the Guard: jobs give their locks back when they return. End
// the context of an Elector first.
package guardgocron
