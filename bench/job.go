package main

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"
)

// job is what one worker process is to do.
type job struct {
	Kind    string // a key of kinds
	Library string
	Addr    string   // of redis-server
	Others  []string // the rest of its quorum
	Watched []string // the sentinels that know where it is
	Index   int      // of this process among those of the same job

	Callers   int           // goroutines, each of which waits for its lock
	Instances int           // of the library, among which the callers are divided
	Hot       bool          // all callers want one key, else each has its own
	Section   time.Duration // how long a lock is held: asleep, so that nothing is computed
	Rest      time.Duration // between two locks of a caller
	Warmup    time.Duration // not measured
	Length    time.Duration // measured
	Leases    int           // how many are held at once
	Keys      int           // how many a cycle takes at once
	Limit     int           // how many may hold the key at once
	Shared    bool          // any number
	Writers   int           // in how many processes one caller wants the key for itself

	Tuned    bool   // with the options that make a library fast: see open, and ring
	Far      bool   // Redis is 1 ms away
	Plain    bool   // an exclusive lock, in place of one with a limit
	Waits    bool   // report how long callers waited
	Sections bool   // report when sections began and ended
	Profile  string // file for a CPU profile
}

// report is what one worker process found. Only what its kind of job measures is set.
type report struct {
	Measured  time.Duration            // the measured time as it was, which a busy machine stretches
	Cycles    int64                    // sections within it
	PerCaller []int64                  // Cycles of each caller
	Acquired  int64                    // sections in all, warm-up included
	Waits     *hdrhistogram.Snapshot   // ns
	Bare      *hdrhistogram.Snapshot   // ns, of what Waits is to be compared with
	Sections  [][2]int64               // begin and end by the wall clock, ns
	Commands  int64                    // that the library sent
	Grants    [][]grant                // what each caller got
	Turns     []*hdrhistogram.Snapshot // ns, of cycles that differ and take turns
	PerLease  leaseCost
	Scripts   []scriptTime
	Errors    int64
	Error     string // one of them
}

// grant is a lock that a caller got, by the wall clock in ns.
type grant struct{ Asked, Begun int64 }

// leaseCost is what a lease that is held costs its process.
type leaseCost struct {
	Goroutines float64
	Bytes      float64 // of heap and stacks
}

// kinds are the jobs there are. Each calls ready when it is set up, and begins to
// measure when that returns.
var kinds = map[string]func(ctx context.Context, j job, client *redis.Client, ready func()) (report, error){
	"cycles":   cycles,
	"big":      big,
	"solo":     solo,
	"ping":     ping,
	"alone":    alone,
	"waiting":  waiting,
	"held":     held,
	"several":  several,
	"limits":   limits,
	"wanting":  wanting,
	"replicas": replicated,
	"quorum":   quorums,
}

// endOfTime is a deadline for contexts that is far away, and there: without one, redislock
// would wait no longer than its ttl.
const endOfTime = time.Hour

// openAll makes the job's instances of its library.
func openAll(j job, client *redis.Client) ([]library, error) {
	all := make([]library, max(j.Instances, 1))
	for i := range all {
		var err error
		if all[i], err = open(j, client); err != nil {
			closeAll(all[:i])
			return nil, err
		}
	}
	return all, nil
}

func closeAll(all []library) {
	for _, l := range all {
		l.Close()
	}
}

// key is what a caller locks.
func (j job) key(caller int) string {
	if j.Hot {
		return "hot"
	}
	return fmt.Sprintf("bench:%d:%d", j.Index, caller)
}

// ring is the keys that a caller locks in turn. With AsyncRelease, a caller that wanted the same one
// again would be given it within its process.
func (j job) ring(caller int) []string {
	keys := []string{j.key(caller)}
	for n := 1; j.Tuned && n < 100; n++ {
		keys = append(keys, fmt.Sprintf("%s:%d", keys[0], n))
	}
	return keys
}

// inTurns runs each way so many times, then the next, until the job ends, and reports how long they took.
func inTurns(ctx context.Context, j job, ready func(), cycles int, ways []func(ctx context.Context) error) (r report, err error) {
	ctx, cancel := context.WithTimeout(ctx, endOfTime)
	defer cancel()
	turns := histograms(len(ways))
	ready()

	from := time.Now().Add(j.Warmup)
	for to := from.Add(j.Length); time.Now().Before(to); {
		for i, way := range ways {
			for range cycles {
				begun := time.Now()
				if err := way(ctx); err != nil {
					return r, err
				}
				if begun.After(from) {
					record(turns[i], time.Since(begun))
				}
			}
			if cycles > 1 { // asynchronous work is to end
				time.Sleep(turnRest)
			}
		}
	}
	r.Turns = exported(turns)
	return r, nil
}

const turnRest = 5 * time.Millisecond

// histograms are so many new ones.
func histograms(n int) []*hdrhistogram.Histogram {
	all := make([]*hdrhistogram.Histogram, n)
	for i := range all {
		all[i] = newHistogram()
	}
	return all
}

func exported(all []*hdrhistogram.Histogram) (snapshots []*hdrhistogram.Snapshot) {
	for _, h := range all {
		snapshots = append(snapshots, h.Export())
	}
	return snapshots
}

// newHistogram is for 1 µs to 10 min, to three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(10*time.Minute), 3)
}

// record puts d into h, or at the nearest end of it.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), h.LowestTrackableValue()), h.HighestTrackableValue()))
}
