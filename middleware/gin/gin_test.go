package guardgin_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardgin "github.com/redlatch/redlatch/middleware/gin"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

// How an engine is asked.
var call, ask, busy, status = adaptertest.Call, adaptertest.Ask, adaptertest.Busy, adaptertest.Status

func held(c *gin.Context)    { adaptertest.Held(c.Writer, c.Request) }
func showKey(c *gin.Context) { adaptertest.KeyOrNone(c.Writer, c.Request) }

// Under a lost lock, no way in which gin answers is a success.
func TestAnswer_LostLockIsNoSuccessHoweverGinAnswers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		work   func(c *gin.Context, lose func())
		status int
		body   string
	}{
		"an error status, not sent": {func(c *gin.Context, lose func()) { c.Status(404); lose() }, 500, "lock_lost"},
		"a status, written":         {func(c *gin.Context, lose func()) { c.Status(204); c.Writer.WriteHeaderNow(); lose() }, 500, "lock_lost"},
		"a stream": {func(c *gin.Context, lose func()) {
			assert.NoError(t, http.NewResponseController(c.Writer).SetWriteDeadline(time.Time{}), "it finds the server's")
			parts := 0
			c.Stream(func(w io.Writer) bool { _, _ = io.WriteString(w, "part "); parts++; return parts < 3 })
			lose()
		}, 200, "part part part "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := adaptertest.NewBench(t)
			engine := gin.New()
			engine.POST("/", guardgin.Middleware(b.Guard, guardgin.Lock("k")), func(c *gin.Context) {
				row.work(c, func() { b.Lose(c.Request.Context(), "k") })
			})
			server := httptest.NewServer(engine) // a recorder cannot stream
			defer server.Close()
			res, err := server.Client().Post(server.URL, "", nil)
			require.NoError(t, err)
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			assert.Equal(t, row.status, res.StatusCode)
			assert.Contains(t, string(body), row.body)
		})
	}
}

// No handler runs after a handler that answers an error of guard.
func TestWriteError_Aborts(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	engine.GET("/", func(c *gin.Context) { guardgin.WriteError(c, guard.ErrClosed) }, func(*gin.Context) { assert.Fail(t, "ran") })
	assert.Equal(t, http.StatusServiceUnavailable, status(engine, "GET /"))
}

// An OnError that answers nothing does not let the request in.
func TestOnError_WithoutAnAnswerRefuses(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	rule := guardgin.Lock("order:{id}", guard.NoWait()).OnError(func(_ http.ResponseWriter, r *http.Request, err error) {
		c := guardgin.Context(r)
		assert.ErrorIs(t, err, guard.ErrBusy)
		assert.Equal(t, "7", c.Param("id"))
		c.Status(http.StatusGone)
	})
	engine.POST("/orders/:id/pay", guardgin.Middleware(busy(t), rule), func(*gin.Context) { assert.Fail(t, "ran") })
	assert.Equal(t, http.StatusGone, status(engine, "POST /orders/7/pay"))
}

func TestMiddleware_PutsRequestAndWriterBack(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]gin.HandlerFunc{
		"ok":     func(c *gin.Context) { c.Status(http.StatusNoContent) },
		"panic":  func(*gin.Context) { panic("x") },
		"others": func(c *gin.Context) { c.Request = httptest.NewRequest(http.MethodPut, "/", nil) },
		"busy":   func(*gin.Context) { assert.Fail(t, "ran") },
	} {
		engine, g := gin.New(), guardtest.NewMemoryGuard(t)
		if name == "busy" {
			g = busy(t)
		}
		engine.Use(gin.CustomRecoveryWithWriter(io.Discard, func(*gin.Context, any) {}), func(c *gin.Context) {
			request, writer := c.Request, c.Writer
			defer func() {
				assert.Same(t, request, c.Request, name)
				assert.Equal(t, writer, c.Writer, name)
			}()
			c.Next()
			c.Header("X-Outer", "1") // gin sends a mere status when all are done
			assert.Equal(t, name == "busy", c.IsAborted() && len(c.Errors) == 1 && errors.Is(c.Errors[0], guard.ErrBusy), name)
		})
		engine.POST("/orders/:id/pay", guardgin.Middleware(g, guardgin.Lock("order:{id}", guard.NoWait())), handler)
		assert.Equal(t, name != "panic", call(engine, "POST", "/orders/7/pay").Header().Get("X-Outer") == "1", name)
	}
}

func TestWriter_IsThatOfGin(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	engine.POST("/", guardgin.Middleware(guardtest.NewMemoryGuard(t), guardgin.Lock("write")), func(c *gin.Context) {
		w := c.Writer
		assert.Equal(t, []any{200, -1, false}, []any{w.Status(), w.Size(), w.Written()})
		c.Status(201)
		assert.Equal(t, []any{201, -1, false}, []any{w.Status(), w.Size(), w.Written()})
		c.Status(0)
		w.WriteHeaderNow()
		assert.Equal(t, []any{201, 0, true}, []any{w.Status(), w.Size(), w.Written()})
		c.Status(500) // too late
		_, _ = w.Write([]byte("ab"))
		_, _ = w.WriteString("c")
		assert.Equal(t, []any{201, 3, true}, []any{w.Status(), w.Size(), w.Written()})
		guardgin.WriteError(c, guard.ErrNoGuard) // says nothing any more
	})
	rec := call(engine, "POST", "/")
	assert.Equal(t, 201, rec.Code)
	assert.Equal(t, "abc", rec.Body.String())
}

// A status without a body is held back until the handler has returned, and has the headers of its time.
func TestWriter_AStatusIsHeldBackAndSentOnce(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusNoContent, http.StatusSwitchingProtocols} {
		to := &statuses{ResponseRecorder: httptest.NewRecorder()}
		engine := gin.New()
		engine.Use(func(c *gin.Context) {
			c.Next()
			assert.Equal(t, []any{code, true}, []any{c.Writer.Status(), c.Writer.Written()})
		}, guardgin.Middleware(guardtest.NewMemoryGuard(t), guardgin.Lock("k")))
		engine.POST("/", func(c *gin.Context) {
			c.Header("X-Early", "1")
			c.Status(code)
			c.Writer.WriteHeaderNow()
			c.Writer.WriteHeaderNow()
			assert.Equal(t, code == http.StatusSwitchingProtocols, len(to.all) > 0, "a switch of protocols is sent at once")
			c.Header("X-Late", "1")
		})
		engine.ServeHTTP(to, httptest.NewRequest(http.MethodPost, "/", nil))
		assert.Equal(t, []int{code}, to.all)
		assert.Equal(t, []string{"1", ""}, []string{to.header.Get("X-Early"), to.header.Get("X-Late")})
	}
}

func TestMiddleware_OfTheWholeEngine(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.Use(guardgin.Middleware(guardtest.NewMemoryGuard(t), guardgin.Lock("order:{id}")))
	engine.POST("/orders/:id/pay", held)
	engine.POST("/list", held)
	for request, want := range map[string]int{
		"POST /orders/7/pay":  http.StatusOK,
		"POST /orders/7/nope": http.StatusNotFound,
		"GET /orders/7/pay":   http.StatusMethodNotAllowed,
		"POST /orders/7/pay/": http.StatusTemporaryRedirect,
		"POST /list":          http.StatusInternalServerError, // a route that the template does not fit
	} {
		assert.Equal(t, want, status(engine, request), request)
	}

	engine = gin.New()
	engine.Use(guardgin.Middleware(busy(t), guardgin.Lock("order:7", guard.NoWait())))
	assert.Equal(t, http.StatusConflict, status(engine, "POST /nope"), "the key fits")
}

func TestAnnotate_RowsApplyToTheirRoutes(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	rows := guardgin.Routes{
		"POST /orders/:id/pay":       guardgin.Lock("order:{id}"),
		"POST /files/*path":          guardgin.Lock("file:{path}"),
		"POST /admin/orders/:id/pay": guardgin.Lock("admin:{id}"),
		"POST /":                     guardgin.Lock("root"),
		"POST /nope":                 guardgin.Lock("nope"),
	}
	engine.Use(guardgin.Annotate(guardtest.NewMemoryGuard(t), rows))
	for _, path := range []string{"/orders/:id/pay", "/orders/new/pay", "/files/*path", "/"} {
		engine.POST(path, showKey)
	}
	engine.GET("/orders/:id/pay", showKey)
	engine.Group("/admin").POST("/orders/:id/pay", showKey)
	for request, want := range map[string]string{
		"POST /orders/7/pay":       "order:7",
		"POST /orders/%37/pay":     "order:7",
		"POST /orders/new/pay":     "none",
		"GET /orders/7/pay":        "none",
		"POST /files/a/b%20c":      "file:a/b c",
		"POST /files/a//b":         "file:a//b",
		"POST /files/":             "Bad Request",
		"POST /admin/orders/7/pay": "admin:7",
		"POST /":                   "root",
		"POST /nope":               "Not Found",
	} {
		assert.Equal(t, want, ask(engine, request), request)
	}
	assert.EqualError(t, guardgin.Check(engine, rows), `guardgin: row "POST /nope": there is no such route; a row has the full path, as the route has it`)
	assert.EqualError(t, guardgin.Check(nil, nil), "guardgin: Check: no Engine")
}

// A slash at the beginning is gin's only where a wildcard stands.
func TestKey_ParameterKeepsItsFirstSlash(t *testing.T) {
	t.Parallel()
	engine := newEngine()
	engine.POST("/users/u-:id", guardgin.Middleware(guardtest.NewMemoryGuard(t), guardgin.Lock("user:{id}")), showKey)
	assert.Equal(t, "user:/a", ask(engine, "POST /users/u-%2Fa"))
}

// With RemoveExtraSlash, the router takes several slashes for one: it does not say what the parameter was.
func TestKey_ParameterOfAPathWithExtraSlashesIsNone(t *testing.T) {
	t.Parallel()
	engine := newEngine()
	engine.RemoveExtraSlash = true
	engine.POST("/orders/:id/pay", guardgin.Middleware(guardtest.NewMemoryGuard(t), guardgin.Lock("order:{id}")), showKey)
	assert.Equal(t, "order:7", ask(engine, "POST /orders/7/pay"))
	assert.Equal(t, "Bad Request", ask(engine, "POST /orders//7/pay"))
}

// An outer layer that answers errors may answer in another way the next time.
func TestOnce_AnErrorThatALayerOutsideAnswersIsNotKept(t *testing.T) {
	t.Parallel()
	engine, runs := gin.New(), 0
	engine.Use(func(c *gin.Context) {
		c.Next()
		if len(c.Errors) > 0 {
			c.String(http.StatusBadGateway, "the bank is down")
		}
	})
	engine.POST("/pay", guardgin.Middleware(guardtest.NewMemoryGuard(t), guardgin.Lock("pay").Once(time.Hour).SharedAnswer()), func(c *gin.Context) {
		runs++
		_ = c.Error(errors.New("the bank is down"))
	})
	for range 2 {
		assert.Equal(t, http.StatusBadGateway, post(engine, "/pay").Code)
	}
	assert.Equal(t, 2, runs)
}

// HandleContext takes the answer's writer away: what it sends is not held back, and no part of it is taken for an
// answer.
func TestOnce_AnAnswerOfHandleContextIsNotKept(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusCreated, http.StatusBadGateway} {
		engine, runs := gin.New(), 0
		engine.POST("/paid", func(c *gin.Context) { c.String(status, "paid") })
		engine.POST("/pay", guardgin.Middleware(guardtest.NewMemoryGuard(t), guardgin.Lock("pay").Once(time.Hour).SharedAnswer()), func(c *gin.Context) {
			runs++
			c.Request.URL.Path = "/paid"
			engine.HandleContext(c)
		})
		first := post(engine, "/pay")
		assert.Equal(t, status, first.Code)
		assert.Equal(t, "paid", first.Body.String())
		again := post(engine, "/pay")
		if status < http.StatusInternalServerError {
			assert.Contains(t, again.Body.String(), "idempotency_result_not_kept")
			assert.Equal(t, 1, runs)
		} else {
			assert.Equal(t, 2, runs, "it failed")
		}
		assert.Empty(t, again.Header().Get("Idempotent-Replayed"))
	}
}

// Not parallel: it replaces slog's default logger.
func TestHandleContext_ALossIsLogged(t *testing.T) { //nolint:paralleltest // the logger is of all
	b := adaptertest.NewBench(t)
	engine := gin.New()
	engine.POST("/paid", func(c *gin.Context) { c.String(http.StatusCreated, "paid") })
	engine.POST("/pay", guardgin.Middleware(b.Guard, guardgin.Lock("pay")), func(c *gin.Context) {
		b.Lose(c.Request.Context(), "pay")
		c.Request.URL.Path = "/paid"
		engine.HandleContext(c)
	})
	assert.Len(t, adaptertest.Logged(t, func() { assert.Equal(t, http.StatusCreated, post(engine, "/pay").Code) }), 1)
}

// statuses notes each status that is sent, and the headers of the last one.
type statuses struct {
	*httptest.ResponseRecorder
	all    []int
	header http.Header
}

func (s *statuses) WriteHeader(status int) {
	s.all, s.header = append(s.all, status), s.Header().Clone()
}

// Early hints are no answer: the status that follows, or 200, is sent and repeated, and the hints are sent once.
func TestOnce_AStatusAfterEarlyHintsIsSent(t *testing.T) {
	t.Parallel()
	for status, answer := range map[int]func(c *gin.Context){
		http.StatusNotFound: func(c *gin.Context) { c.String(http.StatusNotFound, "no such card") },
		http.StatusOK:       func(c *gin.Context) { _, _ = c.Writer.WriteString("paid") },
	} {
		engine := gin.New()
		engine.POST("/pay", guardgin.Middleware(guardtest.NewMemoryGuard(t), guardgin.Lock("pay").Once(time.Hour).SharedAnswer()), func(c *gin.Context) {
			c.Writer.WriteHeader(http.StatusEarlyHints)
			c.Writer.WriteHeaderNow()
			answer(c)
		})
		for _, want := range [][]int{{http.StatusEarlyHints, status}, {status}} {
			w := &statuses{ResponseRecorder: httptest.NewRecorder()}
			engine.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/pay", nil))
			assert.Equal(t, want, w.all)
		}
	}
}

func TestKeyFunc_GetsTheContextOfItsRequest(t *testing.T) {
	t.Parallel()
	_, err := guardgin.ParseKey("order:{")
	assert.Error(t, err)
	byTemplate, err := guardgin.ParseKey("order:{id}")
	require.NoError(t, err)
	byContext := func(c *gin.Context) (string, error) { return guard.JoinKey("order", c.Param("id")), nil }
	for _, key := range []guardgin.KeyFunc{byTemplate, byContext} {
		engine := gin.New()
		engine.POST("/orders/:id/pay", guardgin.Middleware(guardtest.NewMemoryGuard(t), guardgin.LockFunc(key)), showKey)
		assert.Equal(t, "order:7", ask(engine, "POST /orders/7/pay"))
	}
	assert.Nil(t, guardgin.Context(httptest.NewRequest(http.MethodPost, "/", nil)))
	assert.PanicsWithValue(t, "guardgin: no KeyFunc", func() { guardgin.Middleware(nil, guardgin.LockFunc(nil)) })
}

func init() { gin.SetMode(gin.ReleaseMode) } // which prints nothing

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) { adaptertest.Suite(t, build) } //nolint:paralleltest // see Suite

func build(_ testing.TB, s adaptertest.Setup) http.Handler {
	engine, routes, path := newEngine(), guardgin.Routes{}, adaptertest.Colons(s.Route())
	handlers := []gin.HandlerFunc{func(c *gin.Context) {
		s.Work(c.Writer, c.Request)
		if s.InCode != nil {
			guardgin.WriteError(c, s.InCode(c.Request.Context()))
		}
		if s.Fail != nil {
			_ = c.Error(s.Fail)
		}
	}}
	switch {
	case s.Unguarded:
	case s.Table:
		for _, method := range adaptertest.Methods {
			routes[method+" "+path] = s.Rule()
		}
		engine.Use(guardgin.Annotate(s.Guard, routes))
	default:
		handlers = append([]gin.HandlerFunc{guardgin.Middleware(s.Guard, s.Rule())}, handlers...)
	}
	engine.Match(adaptertest.Methods, path, handlers...)
	return engine
}

// newEngine has the settings with which all spellings of a path reach the handlers.
func newEngine() *gin.Engine {
	engine := gin.New()
	engine.UseRawPath = true
	return engine
}
