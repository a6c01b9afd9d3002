package guardweb

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/redlatch/redlatch/guard/inspect"
)

var (
	errGone     = errors.New("that hold is not there any more")
	errNoRecord = errors.New("that record is not there any more")
)

// step asks for a confirmation of revoke, break or forget (GET), or does it (POST).
func (h *handler) step(w http.ResponseWriter, r *http.Request, verb string, role Role) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, POST")
		h.fail(w, http.StatusMethodNotAllowed, errors.New("want GET or POST"))
		return
	case role != Act:
		h.fail(w, http.StatusForbidden, errors.New("you may look, and not end a hold or forget a record"))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	form := r.URL.Query()
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			h.fail(w, http.StatusBadRequest, errors.New("the form cannot be read: it has at most 64 KiB"))
			return
		}
		form = r.PostForm
	}
	fence, err := strconv.ParseUint(form.Get("fence"), 10, 64)
	if err != nil {
		h.fail(w, http.StatusBadRequest, errors.New("fence is not a whole number from 0 to 2^64-1"))
		return
	}
	if r.Method == http.MethodPost {
		err = h.do(r.Context(), verb, form, fence)
	} else {
		err = h.confirm(w, r, verb, form.Get("key"), fence)
	}
	switch {
	case err != nil:
		h.fail(w, status(err), err)
	case r.Method == http.MethodPost:
		redirect(w, http.StatusSeeOther, "lock?"+url.Values{"key": {form.Get("key")}}.Encode())
	}
}

func (h *handler) confirm(w http.ResponseWriter, r *http.Request, verb, given string, fence uint64) error {
	key, info, err := h.get(r.Context(), given)
	if err != nil {
		return err
	}
	v, err := h.viewConfirm(verb, key, info, fence)
	if err == nil {
		h.write(w, http.StatusOK, "confirm", v)
	}
	return err
}

// do changes the hold or the record of a fence, also in the list.
func (h *handler) do(ctx context.Context, verb string, form url.Values, fence uint64) error {
	key, err := h.unmask(form.Get("key"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var there bool
	switch verb {
	case "revoke":
		there, err = h.inspector.Revoke(ctx, key, fence)
	case "break":
		there, err = h.inspector.Break(ctx, key, fence)
	default:
		return h.forget(ctx, key, fence, form.Get("state"))
	}
	if err == nil && !there {
		err = errGone
	}
	if err != nil {
		return err
	}
	if info, err := h.inspector.Get(ctx, key); err == nil {
		h.list.put(info)
	}
	return nil
}

// forget deletes the record that was shown. While a user reads the question, another call may finish the work.
func (h *handler) forget(ctx context.Context, key string, fence uint64, shown string) error {
	info, err := h.inspector.Get(ctx, key)
	if err != nil {
		return err
	}
	if r := info.Record; r == nil || r.Fence != fence || string(r.State) != shown {
		return errNoRecord
	}
	_, err = h.inspector.Forget(ctx, key)
	return err
}

// viewConfirm is the question before a step, about a holder or a record.
type viewConfirm struct {
	page

	Verb, Key, Link, Holder string
	Since                   moment
	Fence                   uint64
	State                   inspect.RecordState // of the record to forget
}

func (h *handler) viewConfirm(verb, key string, info inspect.Info, fence uint64) (viewConfirm, error) {
	v := viewConfirm{page: h.page(verb+" "+visible(h.word(key)), 0), Verb: verb, Key: h.word(key), Link: h.link(key), Fence: fence}
	if r := info.Record; verb == "forget" {
		switch {
		case r == nil || r.Fence != fence:
			return v, errNoRecord
		case r.State == inspect.RecordInProgress:
			return v, inspect.ErrInProgress
		}
		v.Holder, v.Since, v.State = r.Instance, ago(info.Now, r.Since), r.State
		return v, nil
	}
	for _, holder := range info.Holders {
		if holder.Fence == fence {
			v.Holder, v.Since = holder.Instance, ago(info.Now, holder.Since)
			return v, nil
		}
	}
	return v, errGone
}
