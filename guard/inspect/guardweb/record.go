package guardweb

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/redlatch/redlatch/guard/inspect"
)

// lockRecord is what guard.Once recorded of a key, without the result.
type lockRecord struct {
	State            inspect.RecordState
	Holder, Metadata string
	Since            when
	Left             bar
	Fence            uint64
	Size             int
	Done             bool
	Forget           string // a link, for users with that right, unless the work goes on
}

func (h *handler) viewRecord(key string, info inspect.Info, role Role) *lockRecord {
	r := info.Record
	if r == nil {
		return nil
	}
	v := &lockRecord{
		State: r.State, Holder: r.Instance, Metadata: h.metadata(r.Metadata), Since: since(info.Now, r.Since),
		Left: barOf(r.Left), Fence: r.Fence, Size: r.Size, Done: r.State == inspect.RecordDone,
	}
	if role == Act && r.State != inspect.RecordInProgress {
		v.Forget = "forget?" + url.Values{"key": {h.word(key)}, "fence": {strconv.FormatUint(r.Fence, 10)}}.Encode()
	}
	return v
}

type viewForget struct {
	page
	Key, Link string
	Record    *lockRecord
}

var errNoRecord = errors.New("that record is not there any more")

// confirmForget asks whether the record of a fence is to be deleted.
func (h *handler) confirmForget(w http.ResponseWriter, key string, info inspect.Info, fence uint64) {
	r := h.viewRecord(key, info, Act)
	switch {
	case r == nil || r.Fence != fence:
		h.failed(w, errNoRecord)
	case r.Forget == "":
		h.failed(w, inspect.ErrInProgress)
	default:
		h.write(w, http.StatusOK, "forget", viewForget{h.page("forget "+visible(h.word(key)), 0), h.word(key), h.link(key), r})
	}
}

// forget deletes the record that was shown. While the question is read, the work may be done after all.
func (h *handler) forget(shown string) func(ctx context.Context, key string, fence uint64) (bool, error) {
	return func(ctx context.Context, key string, fence uint64) (bool, error) {
		info, err := h.inspector.Get(ctx, key)
		switch r := info.Record; {
		case err != nil:
			return false, err
		case r == nil || r.Fence != fence || string(r.State) != shown:
			return false, errNoRecord
		}
		there, err := h.inspector.Forget(ctx, key)
		if err == nil && !there {
			err = errNoRecord
		}
		return there, err
	}
}
