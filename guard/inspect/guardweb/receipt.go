package guardweb

import (
	"crypto/hmac"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// receiptTime is how long the page says what was done.
const receiptTime = time.Minute

// receipt says to the next page what was just done. Nobody but this Handler can make one.
func (h *handler) receipt(verb, key string, fence uint64, now time.Time) string {
	text := fmt.Sprintf("%s.%d.%d", verb, fence, now.Unix())
	return text + "." + digest(h.secret, text+"."+key)
}

// notice is the text that a receipt shows, or empty.
func (h *handler) notice(receipt, key string, now time.Time) string {
	parts := strings.Split(receipt, ".")
	if len(parts) != 4 {
		return ""
	}
	fence, _ := strconv.ParseUint(parts[1], 10, 64) // what is no number is in no receipt
	seconds, _ := strconv.ParseInt(parts[2], 10, 64)
	at := time.Unix(seconds, 0)
	if !hmac.Equal([]byte(receipt), []byte(h.receipt(parts[0], key, fence, at))) || now.Sub(at) > receiptTime {
		return ""
	}
	switch parts[0] {
	case "break":
		return fmt.Sprintf("Hold %d was broken: the key goes to the first in the queue.", fence)
	case "forget":
		return fmt.Sprintf("The record of %d was deleted: the next call runs the work again.", fence)
	}
	return fmt.Sprintf("The holder of %d was asked to end. The key stays taken until it has, or until its lease has ended.", fence)
}
