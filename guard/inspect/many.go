package inspect

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	holdOfMany = regexp.MustCompile(`(?s)^(\d+)(!?) (\d+) (.*)$`) // fence, whether it was revoked, expiry, metadata
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

// parseMany reads the hash of a lock whose holders tolerate others: each has a fence, an end
// and metadata of its own. Whose time is over holds nothing.
func parseMany(key string, fields map[string]string, at time.Time) ([]Holder, error) {
	var holders []Holder
	for field, value := range fields {
		if strings.HasPrefix(field, "@") {
			continue
		}
		m := holdOfMany.FindStringSubmatch(value)
		instance, known := instanceOf(field)
		if m == nil || !known {
			return nil, &FormatError{Key: key, Reason: "its hash has a field that is no owner's"}
		}
		h := Holder{
			Instance: instance, Metadata: m[4], Fence: whole(m[1]), Depth: 1, Limit: limitOf(field), Revoked: m[2] != "",
			Left: time.UnixMicro(int64(whole(m[3]))).Sub(at), //nolint:gosec // below 2^53
		}
		if since := time.UnixMicro(int64(h.Fence)); !since.After(at) { //nolint:gosec // below 2^53
			h.Since = since
		}
		if h.Left > 0 {
			holders = append(holders, h)
		}
	}
	slices.SortFunc(holders, func(a, b Holder) int { return cmp.Compare(a.Fence, b.Fence) })
	return holders, nil
}
