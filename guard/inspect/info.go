package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Info is how a lock stood at one instant of its server.
type Info struct {
	Key       string
	Holders   []Holder  // none if the key is free; by fence
	Waiting   []Waiter  // the first 100 claims in the queue, in order
	Queued    int       // how many wait in Redis: one for each instance, however many of its callers wait
	Record    *Record   // what guard.Once wrote of its work; nil if there is none
	LastFence uint64    // the highest fence of the holders, or a fence ahead of the clock; 0 if there is none
	Now       time.Time // the server's clock
}

// Holder is an instance that holds a lock.
type Holder struct {
	Instance string        // its name, or the first 8 digits of its id
	Metadata string        // what the holder said of itself
	Since    time.Time     // when the hold was granted; zero if it is not known
	Left     time.Duration // until the lease ends, if it is not renewed; 0 without an end
	Fence    uint64        // that of the hold as Redis knows it: Revoke and Break name it
	Depth    int           // how many calls of the hold are open; 0 if the work is done and only a MinHold keeps the key
	Limit    int           // how many holders it tolerates, itself included: 1 = it is alone, 0 = any number
	Revoked  bool          // an operator revoked it
}

// Waiter is an instance that waits for a lock.
type Waiter struct {
	Instance string    // its name, or the first 8 digits of its id
	Since    time.Time // when it came
	Asked    time.Time // when it asked last, or was told that it is in front; zero on a server of a quorum
	Limit    int       // how many holders it tolerates, itself included: 1 = it is to be alone, 0 = any number
	Front    bool      // it is the first, and asks each second
}

// shortID is how much of an instance's id is shown.
const shortID = 8

// parseLook reads what the script look replies.
func parseLook(key string, reply any) (Info, error) {
	list, _ := reply.([]any)
	if len(list) != 9 {
		return Info{Key: key}, &FormatError{Key: key, Reason: fmt.Sprintf("unexpected reply of type %T", reply)}
	}
	seconds, micros := whole(list[0]), whole(list[1])
	kind, _ := list[2].(string)
	left, _ := list[3].(int64)
	fields := pairs(list[4])
	last, _ := list[5].(string)
	queued, _ := list[6].(int64)
	waiting, _ := list[7].([]any)

	info := Info{Key: key, Now: time.Unix(int64(seconds), int64(micros)*1000), Queued: int(queued)}
	info.LastFence = whole(last)
	switch kind {
	case "none":
	case "hash":
		holders, err := parseHolders(key, fields, left, info.Now)
		if err != nil {
			return Info{Key: key}, err
		}
		info.Holders = holders
		for _, h := range holders {
			info.LastFence = max(info.LastFence, h.Fence)
		}
	default:
		return Info{Key: key}, &FormatError{Key: key, Reason: fmt.Sprintf("it is a %s, and not a hash", kind)}
	}
	record, err := parseRecord(key, list[8])
	if err != nil {
		return Info{Key: key}, err
	}
	info.Record, info.Waiting = record, parseWaiting(waiting)
	return info, nil
}

func parseWaiting(list []any) []Waiter {
	var waiting []Waiter
	for i := 0; i+2 < len(list); i += 3 {
		owner, _ := list[i].(string)
		place := whole(list[i+1])
		asked, _ := list[i+2].(string)
		w := Waiter{Since: time.UnixMicro(int64(place)), Limit: limitOf(owner)}
		w.Instance, _ = instanceOf(owner)
		if at := whole(strings.TrimSuffix(asked, "-")); at > 0 { // after it, whether it has a subscription
			w.Asked = time.UnixMicro(int64(at))
		}
		waiting = append(waiting, w)
	}
	slices.SortStableFunc(waiting, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	for i := range waiting {
		waiting[i].Front = i < 1
	}
	return waiting[:min(len(waiting), mostWaiting)]
}

// instanceOf gives the id of the instance that made an owner.
func instanceOf(owner string) (id string, ok bool) {
	id, rest, _ := strings.Cut(owner, "-")
	return id, len(id) >= shortID && rest != ""
}

// short is how an instance without a name is shown. A longer text might be all of an
// owner that was made by hand.
func short(id string) string { return id[:min(len(id), shortID)] }

// whole reads a number below 2^53. It returns 0 for any other text.
func whole(v any) uint64 {
	text, _ := v.(string)
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil {
		return 0
	}
	return n
}

// pairs reads fields and values in turn.
func pairs(v any) map[string]string {
	m := make(map[string]string)
	if byName, ok := v.(map[any]any); ok { // RESP3, should a server say so
		for field, value := range byName {
			m[fmt.Sprint(field)] = fmt.Sprint(value)
		}
		return m
	}
	list, _ := v.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		field, _ := list[i].(string)
		m[field], _ = list[i+1].(string)
	}
	return m
}
