package capacity

import (
	"math"
	"time"
)

// Parts are what locks cost one Redis: the time of its core for each thing that happens, and sizes.
type Parts struct {
	Cycle        time.Duration // acquire and release of a free lock, each in a write of its own
	SharedCycle  time.Duration // the same, of many callers of one process, whose commands share writes
	HandOver     time.Duration // of a lock from one process to another that waits
	Busy         time.Duration // the answer to a caller that does not wait
	Renewal      time.Duration // in a long pipeline
	RenewalAlone time.Duration // in a write of its own
	Queue        time.Duration // a process enters the queue of a key, and leaves it without the lock
	Waiting      time.Duration // a process that waits in front of a queue, for a second
	Connect      time.Duration // a new connection, without TLS, and its end
	Publish      time.Duration // a message, on the node that gets it
	Forward      time.Duration // the same message, on each other node of a cluster

	HeldBytes       int // a held lock, with its fence
	QueueBytes      int // the queue of a key, with one claim
	RememberedBytes int // the fence of a free lock, which lives for a minute or more
	ConnectionBytes int // a connection

	Connections     int // of a process that holds locks
	MostConnections int // of a process, at most
}

// Write is what a pipeline of renewals costs besides the renewals.
func (p Parts) Write() time.Duration { return p.RenewalAlone - p.Renewal }

// Slower are the parts of a server that is n times slower.
func (p Parts) Slower(n int) Parts {
	for _, d := range []*time.Duration{
		&p.Cycle, &p.SharedCycle, &p.HandOver, &p.Busy, &p.Renewal, &p.RenewalAlone, &p.Queue, &p.Waiting,
		&p.Connect, &p.Publish, &p.Forward,
	} {
		*d *= time.Duration(n)
	}
	return p
}

// Measured are the parts as make capacity found them: Redis 7.0.15 on two cores of a cloud server
// (AMD EPYC) that others used, too.
var Measured = Parts{
	Cycle:        35 * time.Microsecond,
	SharedCycle:  12 * time.Microsecond,
	HandOver:     187 * time.Microsecond,
	Busy:         23 * time.Microsecond,
	Renewal:      5100 * time.Nanosecond,
	RenewalAlone: 29 * time.Microsecond,
	Queue:        110 * time.Microsecond,
	Waiting:      139 * time.Microsecond,
	Connect:      91 * time.Microsecond,
	Publish:      14 * time.Microsecond,
	Forward:      2300 * time.Nanosecond,

	HeldBytes: 370, QueueBytes: 400, RememberedBytes: 240, ConnectionBytes: 38_000,
	Connections: 3, MostConnections: 10,
}

// Load is what all processes together ask of all servers.
type Load struct {
	Shards    int
	Processes int
	Cycles    float64 // on free keys, each second
	HandOvers float64 // between processes, each second
	Held      int     // locks at a time
	TTL       time.Duration
	Waiting   int // processes that wait in front of a queue, at a time
}

// Use is what a Load takes of one shard, if keys are spread evenly.
type Use struct {
	Core        float64       // share of its core: 1 is all
	Messages    float64       // share of its core for messages that other nodes of a cluster sent
	Connections int           // if each process has keys on each shard
	Bytes       float64       // of memory
	Backlog     time.Duration // what its replica has to do at once after a failover
}

// The most that a shard should have.
const (
	CoreLimit       = 0.7         // callers wait for as long as they are served, and more
	ConnectionLimit = 30_000      // Redis says that it does half as much with so many
	BacklogLimit    = time.Second // for as long a renewal is waited for, before it is sent once more
)

// The names of what breaks.
const (
	core        = "core"
	connections = "connections"
	backlog     = "failover"
)

// First says what is used up first, if anything is: "core", "connections" or "failover".
func (u Use) First() string {
	first, most := "", 1.0
	for _, of := range []struct {
		what  string
		share float64
	}{
		{core, u.Core / CoreLimit},
		{connections, float64(u.Connections) / ConnectionLimit},
		{backlog, u.Backlog.Seconds() / BacklogLimit.Seconds()},
	} {
		if of.share > most {
			first, most = of.what, of.share
		}
	}
	return first
}

const (
	perHandOver = 2 // messages: it is yours, and you are one of the first two
	remembered  = time.Minute
)

// Use is what a load takes. It takes it that each lock has a key of its own, and that no process dies.
func (p Parts) Use(l Load) Use {
	shards, processes := float64(l.Shards), float64(l.Processes)
	messages := perHandOver*l.HandOvers + float64(l.Waiting) // and each process that waits tests its subscription, each second
	u := Use{Messages: messages * (1 - 1/shards) * p.Forward.Seconds()}
	renewals := 3 * float64(l.Held) / l.TTL.Seconds()
	all := l.Cycles*p.Cycle.Seconds() + l.HandOvers*p.HandOver.Seconds() + float64(l.Waiting)*p.Waiting.Seconds() +
		renewals*(p.Renewal.Seconds()+p.Write().Seconds()*l.pipelines())
	u.Core = all/shards + u.Messages
	perShard := processes * (float64(p.Connections-1) + 1/shards) // the one for messages goes to one shard
	u.Connections = int(perShard)
	u.Bytes = (float64(l.Held*p.HeldBytes)+l.Cycles*remembered.Seconds()*float64(p.RememberedBytes)+
		float64(l.Waiting*p.QueueBytes))/shards + perShard*float64(p.ConnectionBytes)
	u.Backlog = time.Duration(float64(l.Held)/shards*float64(p.Renewal) +
		math.Min(processes, float64(l.Held)/shards)*float64(p.Write()) + perShard*float64(p.Connect))
	return u
}

// window is for how long package watchdog has renewals wait for each other. It is less if the ttl is below 15 s.
const window = 250 * time.Millisecond

// pipelines is how many a renewal needs. A process renews what is due in a window in one for each shard.
func (l Load) pipelines() float64 {
	due := float64(l.Held) / float64(l.Processes*l.Shards) * 3 * min(l.TTL/60, window).Seconds() / l.TTL.Seconds()
	return (1 - math.Exp(-due)) / due
}
