// Package api knows the exported API of every package that users import: none of it
// changes unnoticed.
package api

import (
	"errors"
	"flag"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "github.com/redlatch/redlatch/"
	golden = "testdata"
)

// aliased is the package whose Rule and Task are those of the adapters for tasks.
const aliased = "middleware/internal/tasklock"

var update = flag.Bool("update", false, "write the API as it is now to "+golden)

// The API is what the golden files say. To change it on purpose, run
//
//	go test ./internal/api -update
//
// and have the difference reviewed with the change.
func TestAPI_IsAsKnown(t *testing.T) {
	var known []string
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || dir == "." {
			return err
		}
		if base := entry.Name(); base == "internal" && dir != "middleware/internal" || base == "testdata" || strings.HasPrefix(base, ".") {
			return fs.SkipDir
		}
		if strings.HasPrefix(dir, "middleware/internal/") && dir != aliased {
			return fs.SkipDir
		}
		var none *build.NoGoError
		pkg, err := build.ImportDir(filepath.Join(root, dir), 0)
		if errors.As(err, &none) || err == nil && pkg.Name == "main" {
			return nil // users cannot import it
		}
		require.NoError(t, err)
		got := surface(t, pkg, dir)
		if got == "" {
			return nil
		}
		file := strings.ReplaceAll(dir, "/", "-") + ".txt"
		known = append(known, file)
		if *update {
			require.NoError(t, os.WriteFile(filepath.Join(golden, file), []byte(got), 0o644))
		}
		want, err := os.ReadFile(filepath.Join(golden, file))
		require.NoError(t, err, "a new package? go test ./internal/api -update")
		assert.Equal(t, string(want), got, "%s: if you mean it: go test ./internal/api -update", dir)
		return nil
	}))
	files, err := os.ReadDir(golden)
	require.NoError(t, err)
	for _, f := range files {
		assert.Contains(t, known, f.Name(), "of a package that is gone")
	}
}

// surface returns the exported declarations of a package, without comments and bodies.
func surface(t *testing.T, pkg *build.Package, dir string) string {
	t.Helper()
	fset, files := token.NewFileSet(), make([]*ast.File, len(pkg.GoFiles))
	for i, name := range pkg.GoFiles {
		var err error
		files[i], err = parser.ParseFile(fset, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution) // without comments
		require.NoError(t, err)
	}
	d, err := doc.NewFromFiles(fset, files, module+dir)
	require.NoError(t, err)
	p := page{t: t, fset: fset}
	p.add(d.Consts, d.Vars, d.Funcs)
	for _, typ := range d.Types {
		p.print(typ.Decl)
		p.add(typ.Consts, typ.Vars, typ.Funcs, typ.Methods)
	}
	return p.text.String()
}

// page is where declarations are printed.
type page struct {
	t    *testing.T
	fset *token.FileSet
	text strings.Builder
}

func (p *page) add(consts, vars []*doc.Value, funcs ...[]*doc.Func) {
	for _, v := range slices.Concat(consts, vars) {
		p.print(v.Decl)
	}
	for _, f := range slices.Concat(funcs...) {
		f.Decl.Body = nil
		p.print(f.Decl)
	}
}

func (p *page) print(decl ast.Decl) {
	if !ast.FilterDecl(decl, ast.IsExported) {
		return
	}
	p.t.Helper()
	var text strings.Builder
	require.NoError(p.t, (&printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 8}).Fprint(&text, p.fset, decl))
	p.text.WriteString(spaces.ReplaceAllString(gaps.ReplaceAllString(text.String(), "\n"), " "))
	p.text.WriteString("\n\n")
}

// Where comments stood must not be seen, neither by empty lines nor by what they align.
var (
	gaps   = regexp.MustCompile(`\n+`)
	spaces = regexp.MustCompile(` {2,}`)
)
