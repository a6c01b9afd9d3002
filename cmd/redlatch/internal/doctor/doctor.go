// Package doctor finds faults of a Redis that harm locks, and says how to fix them. It
// writes nothing.
package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Level is the severity of a Finding.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Note Level = "note" // locks work; a fact to know
	Warn Level = "warn" // locks work, less well or less safely
	Bad  Level = "bad"  // locks do not work, or are lost
)

// Finding is the result of one check.
type Finding struct {
	Server string `json:"server"` // its address; empty for a check of all servers
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Says   string `json:"says"`
	Fix    string `json:"fix,omitempty"`
}

// Examine checks every primary that client reaches. It returns an error only if Redis does not answer.
func Examine(ctx context.Context, client redis.UniversalClient, prefix string) ([]Finding, error) {
	var mu sync.Mutex
	var all []Finding
	add := func(found []Finding) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, found...)
	}
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			found, err := examine(ctx, node, true)
			add(found)
			return err
		})
	} else {
		var found []Finding
		found, err = examine(ctx, client, false)
		add(found)
	}
	switch {
	case redis.IsAuthError(err):
		return []Finding{login(client, err)}, nil
	case err != nil:
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Server, b.Server) })
	return append(all, script(ctx, client, prefix), publish(ctx, client, prefix)), nil
}

// login is the only Finding if Redis refuses the login.
func login(client redis.UniversalClient, err error) Finding {
	f := Finding{Server: address(client), Check: "login", Level: Bad}
	if strings.Contains(err.Error(), "NOAUTH") {
		f.Says, f.Fix = "Redis wants a password", "give one in the URL, or in the file that REDIS_PASSWORD_FILE names"
		return f
	}
	f.Says, f.Fix = "the user name or the password is wrong", "ACL LIST on the server shows its users, and which of them are on"
	return f
}

// address returns "" for a client of several servers.
func address(client redis.UniversalClient) string {
	if one, ok := client.(*redis.Client); ok {
		return one.Options().Addr
	}
	return ""
}

// server is one primary, with its findings.
type server struct {
	name string
	info map[string]string
	out  []Finding
}

func (s *server) say(check string, level Level, fix, format string, args ...any) {
	s.out = append(s.out, Finding{s.name, check, level, fmt.Sprintf(format, args...), fix})
}

func examine(ctx context.Context, client redis.UniversalClient, cluster bool) ([]Finding, error) {
	s := &server{name: address(client)}
	if err := s.latency(ctx, client); err != nil {
		return nil, err
	}
	s.clock(ctx, client)
	text, err := client.Info(ctx, "everything").Result()
	if err != nil {
		s.say("info", Note, "allow +info to this user, or use another user",
			"INFO is refused, so version, memory and replication are not known: %v", err)
		return s.out, nil
	}
	s.info = parse(text)
	s.version()
	s.mode(cluster)
	s.memory()
	s.replication(ctx, client)
	s.persistence()
	s.connections()
	return s.out, nil
}

func parse(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	return info
}

func (s *server) number(name string) int64 {
	n, _ := strconv.ParseInt(s.info[name], 10, 64)
	return n
}

const (
	pings    = 10
	slowPing = 50 * time.Millisecond
)

func (s *server) latency(ctx context.Context, client redis.UniversalClient) error {
	times := make([]time.Duration, 0, pings)
	for range pings {
		begun := time.Now()
		if err := client.Ping(ctx).Err(); err != nil && (isNoAnswer(err) || redis.IsAuthError(err)) {
			return err
		}
		times = append(times, time.Since(begun))
	}
	times = times[1:] // the first one connects
	slices.Sort(times)
	median, longest := times[len(times)/2], times[len(times)-1]
	level, fix := OK, ""
	if median > slowPing {
		level, fix = Warn, "move Redis closer; each lock takes a round trip, and a lock that was waited for takes two"
	}
	s.say("latency", level, fix, "a round trip takes %v, the longest of %d took %v", round(median), len(times), round(longest))
	return nil
}

// isNoAnswer distinguishes a Redis that does not answer from a Redis that refuses.
func isNoAnswer(err error) bool {
	var refusal redis.Error
	return !errors.As(err, &refusal)
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

const clocksApart = time.Second

func (s *server) clock(ctx context.Context, client redis.UniversalClient) {
	begun := time.Now()
	at, err := client.Time(ctx).Result()
	if err != nil {
		s.say("clock", Bad, "allow +time to this user", "TIME is refused, and locks need it: %v", err)
		return
	}
	roundTrip := time.Since(begun)
	apart := at.Sub(begun.Add(roundTrip / 2))
	level, fix := OK, ""
	if apart.Abs() > clocksApart+roundTrip {
		level, fix = Warn, "synchronize both clocks by NTP. Locks use the server's clock alone, but fences grow "+
			"over a failover only if the servers' clocks agree"
	}
	s.say("clock", level, fix, "the server's clock is %v off ours", apart.Round(time.Millisecond))
}

func (s *server) version() {
	name, text := "Redis", s.info["redis_version"]
	if valkey := s.info["valkey_version"]; valkey != "" {
		name, text = "Valkey", valkey
	}
	var major, minor int
	if n, _ := fmt.Sscanf(text, "%d.%d", &major, &minor); n < 2 {
		s.say("version", Note, "", "it does not tell its version")
		return
	}
	if name == "Redis" && (major < 6 || major == 6 && minor < 2) {
		s.say("version", Bad, "run Redis 6.2 or later, or Valkey", "%s %s is too old", name, text)
		return
	}
	s.say("version", OK, "", "%s %s", name, text)
}

func (s *server) mode(cluster bool) {
	if s.info["cluster_enabled"] == "1" && !cluster {
		s.say("mode", Bad, "give a URL with redis+cluster://", "this is a node of a cluster, but the URL is for one server")
	}
}

func (s *server) memory() {
	policy, most, used := s.info["maxmemory_policy"], s.number("maxmemory"), s.number("used_memory")
	const fix = "CONFIG SET maxmemory-policy noeviction"
	switch {
	case policy == "":
		s.say("memory", Note, "", "it does not tell its maxmemory-policy; it must be noeviction")
	case policy != "noeviction" && most > 0:
		s.say("memory", Bad, fix, "maxmemory-policy is %s: a full Redis drops locks that are held", policy)
	case policy != "noeviction":
		s.say("memory", Warn, fix, "maxmemory-policy is %s: once maxmemory is set, a full Redis drops locks that are held", policy)
	case most > 0 && used > most/10*9:
		s.say("memory", Warn, "raise maxmemory, or give locks a Redis of their own",
			"%d of %d bytes are used: a full Redis refuses new locks", used, most)
	default:
		s.say("memory", OK, "", "maxmemory-policy is noeviction")
	}
}

func (s *server) replication(ctx context.Context, client redis.UniversalClient) {
	if s.info["role"] == "slave" {
		s.say("replication", Bad, "connect to the primary, or through Sentinel", "this is a replica: no lock can be taken here")
		return
	}
	if s.info["connected_slaves"] == "" {
		s.say("replication", Note, "", "it does not tell its replicas; with replicas, set min-replicas-to-write")
		return
	}
	replicas := s.number("connected_slaves")
	config := client.ConfigGet(ctx, "min-replicas-to-write").Val()
	least, unknown := strconv.ParseInt(config["min-replicas-to-write"], 10, 64)
	switch {
	case least > replicas:
		s.say("replication", Bad, "start the replicas, or CONFIG SET min-replicas-to-write 0",
			"min-replicas-to-write is %d and there are %d replicas: every write is refused", least, replicas)
	case replicas == 0:
		s.say("replication", OK, "", "no replicas, so no failover that loses locks")
	case unknown != nil:
		s.say("replication", Note, "set it to 1 at least, with min-replicas-max-lag 10",
			"%d replicas; this user may not read min-replicas-to-write", replicas)
	case least == 0:
		s.say("replication", Warn, "CONFIG SET min-replicas-to-write 1, with min-replicas-max-lag 10, and see guard.Replicas",
			"%d replicas and min-replicas-to-write 0: a primary that was replaced still grants locks", replicas)
	default:
		s.say("replication", OK, "", "%d replicas, min-replicas-to-write %d", replicas, least)
	}
}

func (s *server) persistence() {
	if s.info["aof_enabled"] == "0" {
		s.say("persistence", Note, "CONFIG SET appendonly yes, unless that is acceptable",
			"there is no append-only file: a restart forgets locks that are held")
	}
}

func (s *server) connections() {
	now, most := s.number("connected_clients"), s.number("maxclients")
	switch {
	case most == 0:
	case now > most/10*8:
		s.say("connections", Warn, "raise maxclients, or use several servers, see docs/operate/capacity.md", "%d of %d connections", now, most)
	default:
		s.say("connections", OK, "", "%d of %d connections", now, most)
	}
}

// probe returns a key and a channel like those of locks.
func probe(prefix string) (key, channel string) {
	return prefix + ":{redlatch:doctor}", prefix + ":grant:doctor-" + strings.ToLower(rand.Text())
}

func script(ctx context.Context, client redis.UniversalClient, prefix string) Finding {
	f := Finding{Check: "scripts", Level: OK, Says: "they run"}
	key, _ := probe(prefix)
	const text = "redis.call('TIME') redis.call('HGET', KEYS[1], 'owner') return 1"
	if err := client.Eval(ctx, text, []string{key}).Err(); err != nil {
		f.Level, f.Says = Bad, fmt.Sprintf("EVAL is refused: %v", err)
		f.Fix = "allow the commands that docs/operate/redis.md lists (ACL SETUSER), and load the module lua if a Valkey has none; a service without EVAL cannot hold locks"
	}
	return f
}

const messageTime = 2 * time.Second

// publish sends a message from a script, like a release, and waits for it.
func publish(ctx context.Context, client redis.UniversalClient, prefix string) Finding {
	f := Finding{Check: "messages", Level: OK, Says: "PUBLISH within a script arrives"}
	key, channel := probe(prefix)
	bad := func(format string, args ...any) Finding {
		f.Level, f.Says = Warn, fmt.Sprintf(format, args...)
		f.Fix = "locks are safe without messages, but callers that wait ask only once a second. Allow the channels " +
			prefix + ":grant:* (ACL), or use a service where scripts may PUBLISH"
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, messageTime)
	defer cancel()
	sub := client.Subscribe(ctx, channel)
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		return bad("SUBSCRIBE is refused: %v", err)
	}
	const text = "redis.call('EXISTS', KEYS[1]) return redis.call('PUBLISH', ARGV[1], 'doctor')"
	if err := client.Eval(ctx, text, []string{key}, channel).Err(); err != nil {
		return bad("PUBLISH within a script is refused: %v", err)
	}
	if _, err := sub.ReceiveMessage(ctx); err != nil {
		return bad("a message that a script sent did not arrive within %v", messageTime)
	}
	return f
}
