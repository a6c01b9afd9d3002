package guardweb_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
)

func TestAct_RevokeAsksFirst(t *testing.T) {
	r := newEnv(t)
	lease := r.hold("a key?")
	p := r.page(acting)
	assert.NotContains(t, p.says("/", "a key?"), "revoked</b>")
	assert.Equal(t, 404, p.post("/forget", "a key?", lease.Fence(), "done").code, "it has no record")
	p.says("/revoke?key=a+key%3F&fence="+text(lease.Fence()), `<a class="button" href="lock?key=a&#43;key%3F">Cancel</a>`, `<bdi>web-1</bdi> has held it for <time`, `<form method="post" action="revoke"`, `name="key" value="a key?"`)
	require.NoError(t, lease.Err(), "asking does nothing")
	a := p.post("/revoke", "a key?", lease.Fence(), "")
	require.Equal(t, http.StatusSeeOther, a.code, a.body)
	assert.Equal(t, "lock?key=a+key%3F", a.location)
	p.says("/", "revoked</b>") // at once: the list is read anew now and then only
	p.says("/"+a.location, "It was asked to end.", `<b class="pill revoked">revoked</b>`)
	require.ErrorIs(t, lease.Release(t.Context()), guard.ErrRevoked)
	require.Eventually(t, func() bool { return p.post("/revoke", "a key?", lease.Fence(), "").code == 404 }, patience, 10*time.Millisecond)
}

func TestAct_BreakFreesTheKey(t *testing.T) {
	r := newEnv(t)
	lease := r.hold("k")
	p := r.page(acting)
	p.says("/break?key=k&fence="+text(lease.Fence()), "two work at the same time")
	assert.Equal(t, 404, p.post("/break", "k", lease.Fence()+1, "").code, "another hold")
	require.NoError(t, lease.Err())
	assert.Equal(t, 303, p.post("/break", "k", lease.Fence(), "").code)
	p.says("/lock?key=k", "This key is free")
}

// record is what a process left which ended, or crashed, under the fence 7.
func (r *env) record(key, state, result string) {
	r.Helper()
	text := "1 " + state + " 7 0 0123456789abcdef-1 - 1700000000000000 9 <request>" + result
	require.NoError(r, r.client.Set(r.Context(), "redlatch:{"+key+"}:once", text, time.Hour).Err())
}

func (r *env) recorded(key string) bool {
	return r.client.Exists(r.Context(), "redlatch:{"+key+"}:once").Val() == 1
}

var acts = []string{"/revoke", "/break", "/forget"}

func TestAct_Roles(t *testing.T) {
	r := newEnv(t)
	lease := r.hold("k")
	r.record("k", "done", "secret")
	for name, test := range map[string]struct {
		opts           []guardweb.Option
		look, mayReach int
	}{
		"none":            {[]guardweb.Option{anyone(guardweb.None)}, 403, 403},
		"no such role":    {[]guardweb.Option{anyone(7)}, 403, 403},
		"view":            {[]guardweb.Option{anyone(guardweb.View)}, 200, 403},
		"act":             {[]guardweb.Option{acting}, 200, 404},
		"act, read-only":  {[]guardweb.Option{guardweb.ReadOnly(), acting}, 200, 403},
		"none, read-only": {[]guardweb.Option{guardweb.ReadOnly(), anyone(guardweb.None)}, 403, 403},
	} {
		p := r.page(test.opts...)
		p.codes(map[string]int{"/": test.look, "/lock?key=k": test.look, "/style.css": test.look})
		assert.Equal(t, test.look == 200, strings.Contains(p.get("/").body, "<bdi>Redis at "), "which Redis it is, is for viewers")
		for _, act := range acts {
			assert.Equal(t, test.mayReach, p.get(act+"?key=k&fence=9").code, name)
			assert.Equal(t, test.mayReach, p.post(act, "k", 9, "done").code, name)
			if test.mayReach == 403 {
				assert.Equal(t, 403, p.post(act, "k", lease.Fence(), "").code, name)
				assert.Equal(t, 403, p.post(act, "k", 7, "done").code, name)
			}
		}
	}
	require.NoError(t, lease.Err())
	assert.True(t, r.recorded("k"))
}

// Neither another site acts, nor a GET. A POST looks at its body alone.
func TestAct_AnotherSiteCannotAct(t *testing.T) {
	r := newEnv(t)
	lease := r.hold("k")
	r.record("k", "done", "secret")
	p := r.page(acting)
	fence := map[string]any{"/revoke": lease.Fence(), "/break": lease.Fence(), "/forget": 7}
	for _, act := range acts {
		for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
			a := p.post(act, "k", fence[act], "done", header, value)
			assert.Equal(t, 403, a.code, header)
			assert.Contains(t, a.header.Get("Content-Security-Policy"), "default-src 'none'")
			assert.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
			assert.Equal(t, "no-store", a.header.Get("Cache-Control"))
		}
		query := act + "?key=k&state=done&fence=" + fmt.Sprint(fence[act])
		p.codes(map[string]int{query: 200})
		assert.Equal(t, 400, p.send(http.MethodPost, query).code)
		for _, target := range []string{"/", "/lock?key=k", query} {
			a := p.send(http.MethodPut, target)
			assert.Equal(t, 405, a.code)
			assert.NotEmpty(t, a.header.Get("Allow"))
		}
	}
	require.NoError(t, lease.Err())
	assert.True(t, r.recorded("k"))
	assert.Equal(t, 303, p.post("/revoke", "k", lease.Fence(), "", "Sec-Fetch-Site", "same-origin").code)
}

func TestRecord_LockShowsItsRecord(t *testing.T) {
	r := newEnv(t)
	view, act := r.page(), r.page(acting)
	for state, says := range map[string]string{"begun": "unfinished", "unkept": "not kept", "done": "done"} {
		r.record(state, state, map[string]string{"done": "secret"}[state])
		link := "/lock?key=" + state
		body := view.says(link, `<h2>Record of Once <b class="pill">`+says+"</b></h2>", "01234567", "&lt;request", `<dt>Fence<dd><span class="number">7<`, "2023-11-14")
		assert.Equal(t, state == "done", strings.Contains(body, "<dt>Result<dd>6 bytes"), state)
		assert.NotContains(t, body, "forget?", "view only")
		act.says(link, "forget?fence=7")
		for _, target := range []string{link, "/", "/forget?fence=7&key=" + state} {
			body := act.get(target).body
			assert.NotContains(t, body, "secret", target)
			assert.NotContains(t, body, "0123456789abcdef", "owners are secrets")
		}
	}
	assert.NotContains(t, view.says("/lock?key=none"), "Record of Once")
	assert.Equal(t, "lock?key=a+b%26c", view.get("/?match=a+b%26c").location, "a search for a whole key finds the record of a free key")
}

func TestRecord_ForgetAsksAndDeletesTheRecord(t *testing.T) {
	r := newEnv(t)
	p := r.page(acting)
	r.record("k", "begun", "")
	p.says("/forget?key=k&fence=7", "It has been <b>unfinished</b> for <time", `<bdi>01234567</bdi> began the work under fence <span class="number">7</span>`, `method="post" action="forget"`, `name="state" value="unfinished"`, "The next call runs the work again")
	p.codes(map[string]int{"/forget?key=k&fence=8": 404, "/forget?key=none&fence=7": 404, "/forget?key=k": 400})
	// While a person reads the question, the work may be done after all: that is not what was shown.
	for state, fence := range map[string]int{"done": 7, "unfinished": 8, "": 7} {
		a := p.post("/forget", "k", fence, state)
		assert.Equal(t, 404, a.code)
		assert.Contains(t, a.body, "that record is not there any more")
	}
	assert.True(t, r.recorded("k"), "asking does nothing")

	a := p.post("/forget", "k", 7, "unfinished")
	require.Equal(t, http.StatusSeeOther, a.code, a.body)
	assert.False(t, r.recorded("k"))
	assert.NotContains(t, p.says("/"+a.location), "Record of Once")
}

func TestRecord_InProgressIsNotForgotten(t *testing.T) {
	r := newEnv(t)
	p := r.page(acting)
	_, _, err := guard.Once(t.Context(), r.g, guard.Key("k"), time.Hour, func(ctx context.Context) (string, error) {
		assert.NotContains(t, p.says("/lock?key=k", `<b class="pill">in progress</b>`), "forget?")
		fence, _ := guard.Fence(ctx)
		a := p.get(fmt.Sprint("/forget?key=k&fence=", fence))
		assert.Equal(t, 409, a.code)
		assert.Contains(t, a.body, "The work of this record is in progress.")
		assert.Equal(t, 409, p.post("/forget", "k", fence, "in progress").code)
		return "result", nil
	})
	require.NoError(t, err)
	assert.True(t, r.recorded("k"))
}
