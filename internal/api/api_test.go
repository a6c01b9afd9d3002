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

var update = flag.Bool("update", false, "write the API as it is now to "+golden)

// The API is what the golden files say. To change it on purpose, run
//
//	go test ./internal/api -update
//
// and have the difference reviewed with the change.
func TestAPI_IsAsKnown(t *testing.T) {
	known := map[string]bool{}
	for _, dir := range packages(t) {
		file := strings.ReplaceAll(dir, "/", "-") + ".txt"
		known[file] = true
		t.Run(dir, func(t *testing.T) {
			got, file := surface(t, dir), filepath.Join(golden, file)
			if *update {
				require.NoError(t, os.MkdirAll(golden, 0o755))
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err, "a new package? go test ./internal/api -update")
			assert.Equal(t, string(want), got, "if you mean it: go test ./internal/api -update")
		})
	}

	files, err := os.ReadDir(golden)
	require.NoError(t, err)
	for _, f := range files {
		assert.True(t, known[f.Name()], "%s is of a package that is gone", f.Name())
	}
}

// packages finds what users can import of all modules: no programs, nothing internal.
func packages(t *testing.T) (dirs []string) {
	t.Helper()
	repo := os.DirFS(root)
	require.NoError(t, fs.WalkDir(repo, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || name == "." {
			return err
		}
		base := entry.Name()
		if base == "internal" || base == "testdata" || strings.HasPrefix(base, ".") {
			return fs.SkipDir
		}
		var none *build.NoGoError
		pkg, err := build.ImportDir(filepath.Join(root, name), 0)
		switch {
		case errors.As(err, &none):
			return nil
		case err != nil:
			return err
		case pkg.Name != "main" && surface(t, name) != "":
			dirs = append(dirs, name)
		}
		return nil
	}))
	require.Contains(t, dirs, "guard")
	return dirs
}

// surface gives the exported declarations of a package, without comments and bodies.
func surface(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(root, dir)
	pkg, err := build.ImportDir(path, 0)
	require.NoError(t, err)
	fset, files := token.NewFileSet(), make([]*ast.File, 0, len(pkg.GoFiles))
	for _, name := range pkg.GoFiles {
		// Comments stay behind.
		file, err := parser.ParseFile(fset, filepath.Join(path, name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	d, err := doc.NewFromFiles(fset, files, module+dir)
	require.NoError(t, err)

	p := page{t: t, fset: fset}
	p.values(d.Consts)
	p.values(d.Vars)
	p.funcs(d.Funcs)
	for _, typ := range d.Types {
		p.print(typ.Decl)
		p.values(typ.Consts)
		p.values(typ.Vars)
		p.funcs(typ.Funcs)
		p.funcs(typ.Methods)
	}
	return p.text.String()
}

// page is where declarations are printed.
type page struct {
	t    *testing.T
	fset *token.FileSet
	text strings.Builder
}

func (p *page) values(all []*doc.Value) {
	for _, v := range all {
		p.print(v.Decl)
	}
}

func (p *page) funcs(all []*doc.Func) {
	for _, f := range all {
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
