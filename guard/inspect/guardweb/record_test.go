package guardweb_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
)

// record is what a process left which ended, or crashed, under the fence 7.
func (r *env) record(t *testing.T, key, state, result string) {
	t.Helper()
	text := "1 " + state + " 7 0 0123456789abcdef-1 - 1700000000000000 9 <request>" + result
	require.NoError(t, r.client.Set(t.Context(), "guard:{"+key+"}:once", text, time.Hour).Err())
}

func (r *env) recorded(t *testing.T, key string) bool {
	t.Helper()
	return r.client.Exists(t.Context(), "guard:{"+key+"}:once").Val() == 1
}

func forget(t *testing.T, h http.Handler, key, state string, fence any, change ...func(*http.Request)) answer {
	t.Helper()
	form := url.Values{"key": {key}, "fence": {fmt.Sprint(fence)}, "state": {state}}.Encode()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/forget", strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range change {
		c(r)
	}
	return ask(t, h, r)
}

func TestRecord_LockShowsItsRecord(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	r.record(t, "done", "done", "secret")
	r.record(t, "unfinished", "begun", "")
	r.record(t, "not kept", "unkept", "")
	hold(t, r.g, "held")
	r.record(t, "held", "done", "secret")
	view, act := guardweb.Handler(r.inspector), guardweb.Handler(r.inspector, everybody(guardweb.Act))
	for key, state := range map[string]string{"done": "done", "unfinished": "unfinished", "not kept": "not kept", "held": "done"} {
		link := "/lock?key=" + url.QueryEscape(key)
		a := get(t, view, link)
		require.Equal(t, 200, a.code)
		for _, text := range []string{"<h2>Record: " + state + "</h2>", "01234567", "&lt;request", `<dt>Fence<dd class="number">7`, "2023-11-14"} {
			assert.Contains(t, a.body, text, key)
		}
		assert.Equal(t, state == "done", strings.Contains(a.body, "<dt>Result<dd>6 bytes"), key)
		assert.NotContains(t, a.body, "forget?", "view only")
		assert.Contains(t, get(t, act, link).body, "forget?fence=7")
		for _, page := range []string{link, "/", "/?match=" + url.QueryEscape(key), "/forget?fence=7&key=" + url.QueryEscape(key)} {
			body := get(t, act, page).body
			assert.NotContains(t, body, "secret", page)
			assert.NotContains(t, body, "0123456789abcdef", "owners are secrets")
		}
	}
	assert.Contains(t, get(t, view, "/?match=done").body, `<a href="lock?key=done"><bdi>done</bdi></a> has a record: done.`)
	assert.NotContains(t, get(t, view, "/?match=held").body, "has a record", "it is in the table")
	assert.NotContains(t, get(t, view, "/lock?key=none").body, "Record")
}

func TestRecord_ForgetAsksAndDeletesTheRecord(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	r.record(t, "k", "begun", "")
	a := get(t, h, "/forget?key=k&fence=7")
	require.Equal(t, 200, a.code)
	for _, text := range []string{`method="post" action="forget"`, `name="state" value="unfinished"`, "The next call runs the work again"} {
		assert.Contains(t, a.body, text)
	}
	assert.True(t, r.recorded(t, "k"), "asking does nothing")
	assert.Equal(t, 404, get(t, h, "/forget?key=k&fence=8").code)
	assert.Equal(t, 404, get(t, h, "/forget?key=none&fence=7").code)
	assert.Equal(t, 400, get(t, h, "/forget?key=k").code)

	a = forget(t, h, "k", "unfinished", 7)
	require.Equal(t, http.StatusSeeOther, a.code, a.body)
	assert.False(t, r.recorded(t, "k"))
	assert.Contains(t, get(t, h, "/"+a.location).body, "The record of 7 was deleted: the next call runs the work again.")
	assert.Equal(t, 404, forget(t, h, "k", "unfinished", 7).code)
}

// While a person reads the question, the work may be done after all: that is not what was shown.
func TestRecord_ForgetDeletesOnlyTheRecordThatWasShown(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	r.record(t, "k", "done", "secret")
	for state, fence := range map[string]int{"unfinished": 7, "done": 8, "": 7} {
		a := forget(t, h, "k", state, fence)
		assert.Equal(t, 404, a.code)
		assert.Contains(t, a.body, "that record is not there any more")
	}
	assert.True(t, r.recorded(t, "k"))
}

func TestRecord_ForgetIsForThoseWhoMay(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	r.record(t, "k", "done", "secret")
	for _, opts := range [][]guardweb.Option{nil, {everybody(guardweb.View)}, {everybody(guardweb.None)}} {
		h := guardweb.Handler(r.inspector, opts...)
		assert.Equal(t, 403, get(t, h, "/forget?key=k&fence=7").code)
		assert.Equal(t, 403, forget(t, h, "k", "done", 7).code)
	}
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		a := forget(t, h, "k", "done", 7, func(r *http.Request) { r.Header.Set(header, value) })
		assert.Equal(t, 403, a.code, header)
	}
	query := "/forget?key=k&fence=7&state=done"
	assert.Equal(t, 400, ask(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodPost, query, nil)).code, "only a form acts")
	assert.Equal(t, 405, ask(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, query, nil)).code)
	assert.True(t, r.recorded(t, "k"))
}

func TestRecord_RecordsOfMaskedKeysAreMasked(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	r.record(t, "alice", "done", "secret")
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act), guardweb.MaskKeys())
	for _, page := range []string{"/lock?key=alice", "/forget?key=alice&fence=7", "/?match=alice"} {
		a := get(t, h, page)
		assert.Equal(t, 200, a.code)
		assert.NotContains(t, strings.ReplaceAll(a.body, `name="match" value="alice"`, ""), "alice", page)
		assert.NotContains(t, a.body, "request&gt;", "metadata")
	}
	a := forget(t, h, "alice", "done", 7)
	assert.Equal(t, 303, a.code)
	assert.False(t, r.recorded(t, "alice"))
}

func TestRecord_ThePageDoesNotForgetWorkInProgress(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	h := guardweb.Handler(r.inspector, everybody(guardweb.Act))
	_, _, err := guard.Once(t.Context(), r.g, guard.Key("k"), time.Hour, func(ctx context.Context) (string, error) {
		a := get(t, h, "/lock?key=k")
		assert.Contains(t, a.body, "<h2>Record: in progress</h2>")
		assert.NotContains(t, a.body, "forget?")
		fence, _ := guard.Fence(ctx)
		a = get(t, h, fmt.Sprint("/forget?key=k&fence=", fence))
		assert.Equal(t, 409, a.code)
		assert.Contains(t, a.body, "The work of this record is in progress.")
		assert.Equal(t, 409, forget(t, h, "k", "in progress", fence).code)
		return "result", nil
	})
	require.NoError(t, err)
	assert.True(t, r.recorded(t, "k"))
}
