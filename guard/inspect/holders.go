package inspect

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What the hash of a lock has of a holder, see hold.lua: depth, fence, lease, flags, metadata.
var (
	holdFormat = regexp.MustCompile(`(?s)^(\d+) (\d+) (\d+) (\S+) (.*)$`)
	aheadSince = regexp.MustCompile(`a(\d+)`)
	ownerLimit = regexp.MustCompile(`^[^-]*-(\d+)\.`)
)

// limitOf is how many holders an owner tolerates, as its token says.
func limitOf(owner string) int {
	if m := ownerLimit.FindStringSubmatch(owner); m != nil {
		limit, _ := strconv.Atoi(m[1])
		return limit
	}
	return 1
}

// parseHolders reads the hash of a lock: a field for each owner, and @fence, if there were several.
// A holder whose lease has ended holds nothing.
func parseHolders(key string, fields map[string]string, left int64, at time.Time) ([]Holder, error) {
	var holders []Holder
	_, several := fields["@fence"]
	for field, value := range fields {
		if field == "@fence" {
			continue
		}
		m := holdFormat.FindStringSubmatch(value)
		instance, known := instanceOf(field)
		if m == nil || !known || whole(m[2]) == 0 || len(holders) > 0 && !several {
			return nil, &FormatError{Key: key, Reason: "its hash has a field that is no owner's"}
		}
		depth, _ := strconv.Atoi(m[1])
		h := Holder{
			Instance: instance, Metadata: m[5], Fence: whole(m[2]), Depth: depth, Limit: limitOf(field),
			Revoked: strings.Contains(m[4], "r"), Left: max(time.Duration(left)*time.Millisecond, 0),
		}
		// Fences follow the server's clock, unless there is reason to be ahead of it.
		since := h.Fence
		if m := aheadSince.FindStringSubmatch(m[4]); m != nil {
			since = whole(m[1])
		}
		if several {
			if h.Left = micros(since + 1000*whole(m[3])).Sub(at); h.Left <= 0 {
				continue
			}
		}
		if begun := micros(since); !begun.After(at) {
			h.Since = begun
		}
		holders = append(holders, h)
	}
	if len(holders) == 0 && (!several || len(fields) == 1) {
		return nil, &FormatError{Key: key, Reason: "its hash has no owner"}
	}
	slices.SortFunc(holders, func(a, b Holder) int { return cmp.Compare(a.Fence, b.Fence) })
	return holders, nil
}

// micros is a time in µs, below 2^53.
func micros(n uint64) time.Time { return time.UnixMicro(int64(n)) }
