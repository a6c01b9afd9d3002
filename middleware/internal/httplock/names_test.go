package httplock

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// examples has an error of each kind.
var examples = []error{
	&guard.BusyError{},
	&guard.BusyError{Waited: time.Second},
	&guard.BusyError{Err: context.DeadlineExceeded},
	&guard.BusyError{Err: context.Canceled},
	&guard.LostError{Cause: guard.ErrClosed},
	&guard.LostError{Cause: guard.ErrMaxHold},
	&guard.LostError{Cause: guard.ErrReleased},
	&guard.LostError{Cause: guard.ErrRevoked},
	&guard.BusyError{HeldOver: true},
	&guard.BusyError{Limit: 3},
	&guard.StoreError{},
	&guard.KeyError{},
	&guard.KeyError{Err: locking.Invalid("missing")},
	&guard.OptionError{},
	guard.ErrClosed,
	guard.ErrNoGuard,
	&guard.OnceError{Err: guard.ErrOtherInput},
	&guard.OnceError{Err: guard.ErrUnknownOutcome},
	&guard.OnceError{Err: guard.ErrDamagedRecord},
	&guard.OnceError{Err: guard.ErrNotKept},
}

// A row of the table of names: name, status.
var nameRow = regexp.MustCompile("(?m)^\\| `Err[^|]*\\| `(\\w+)` \\| (\\d+) \\| `\\w+` \\|$")

// The code of an answer is the error.type of telemetry. The guide has each with its status.
func TestNames_CodeIsTheErrorType(t *testing.T) {
	t.Parallel()
	answered := map[string][]string{}
	for _, err := range examples {
		var typed interface{ ErrorType() string }
		require.ErrorAs(t, err, &typed)
		answer := Of(t.Context(), err, nil)
		assert.Equal(t, typed.ErrorType(), answer.Code)
		answered[answer.Code] = append(answered[answer.Code], strconv.Itoa(answer.Status))
	}
	for _, kind := range errorTypes(t) {
		assert.NotEmpty(t, answered[kind], "no example of %q", kind)
	}
	text, err := os.ReadFile("../../../docs/reference/errors.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## Names of errors")
	require.True(t, found)
	said := map[string][]string{}
	for _, row := range nameRow.FindAllStringSubmatch(table, -1) {
		said[row[1]] = append(said[row[1]], row[2])
	}
	assert.Equal(t, answered, said)
}

// errorTypes finds in the source of guard what ErrorType may return.
func errorTypes(t *testing.T) (kinds []string) {
	t.Helper()
	files, err := filepath.Glob("../../../guard/*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "ErrorType" {
					kinds = append(kinds, returned(t, n)...)
				}
			case *ast.CompositeLit:
				if of, ok := n.Type.(*ast.Ident); ok && of.Name == "sentinel" {
					kinds = append(kinds, literal(t, n.Elts[0]))
				}
			}
			return true
		})
	}
	require.Greater(t, len(kinds), len(examples), "of sentinels and of types")
	return kinds
}

func returned(t *testing.T, f *ast.FuncDecl) (kinds []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if ret, ok := n.(*ast.ReturnStmt); ok {
			if _, field := ret.Results[0].(*ast.SelectorExpr); !field { // the sentinel's own
				kinds = append(kinds, literal(t, ret.Results[0]))
			}
		}
		return true
	})
	return kinds
}

func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	lit, ok := e.(*ast.BasicLit)
	require.True(t, ok, "an ErrorType is a literal")
	text, err := strconv.Unquote(lit.Value)
	require.NoError(t, err)
	return text
}

func TestNames_SentinelsHaveTheCodeOfTheirErrors(t *testing.T) {
	t.Parallel()
	for _, pair := range []struct{ sentinel, typed error }{
		{guard.ErrBusy, &guard.BusyError{}},
		{guard.ErrLost, &guard.LostError{Cause: errors.New("cause")}},
		{guard.ErrStore, &guard.StoreError{}},
		{guard.ErrKey, &guard.KeyError{}},
		{guard.ErrOption, &guard.OptionError{}},
	} {
		want := Of(t.Context(), pair.typed, nil).Code
		assert.Equal(t, want, Of(t.Context(), pair.sentinel, nil).Code, "%v", pair.sentinel)
	}
}
