package generate

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed switch.txt
var switches string

// Package is one with all of its mutants in it.
//
// A mutant is on where the environment says MUTANT=<its index in IDs + 1>. Its ID is the file, the function, how it is
// changed and what.
type Package struct {
	IDs   []string
	Files map[string][]byte // by path: what stands in the place of the package's files
}

// Load makes the mutants of a package, seen from a folder that is in its module or workspace, in the files that match.
//
// These kinds are not made, as no test can notice them: another number or operand in the size that is reserved for a
// map or slice, or in a call of math/rand; without slices.Grow, slices.Clip, strings.Builder.Grow, runtime.KeepAlive, runtime.Gosched or testing.TB.Helper;
// without a deferred stop of a timer or cancel of a context, which only frees memory earlier; without setting an
// element of a slice to nil, for the garbage collector; without putting a value into a sync.Pool; without a result that
// is a constant of 0.
func Load(root, pkg string, files *regexp.Regexp) (*Package, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", `{{.ImportPath}}|{{.Export}}|{{.Dir}}|{{join .GoFiles " "}}`, pkg) //nolint:noctx // a tool
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	exports := map[string]string{}
	var last []string // the package itself
	for line := range strings.Lines(string(out)) {
		last = strings.Split(strings.TrimSpace(line), "|")
		exports[last[0]] = last[1]
	}
	dir := last[2]
	fset := token.NewFileSet()
	var parsed []*ast.File
	for name := range strings.FieldsSeq(last[3]) {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	checked, err := conf.Check(last[0], fset, parsed, info)
	if err != nil {
		return nil, err
	}
	p := &Package{Files: map[string][]byte{
		filepath.Join(dir, "mutant_switch.go"): []byte(strings.Replace(switches, "PACKAGE", checked.Name(), 1)),
	}}
	seen := map[string]int{}
	for _, f := range parsed {
		path := fset.Position(f.Pos()).Filename
		name, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		if !files.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m := maker{p: p, fset: fset, file: f, pkg: checked, info: info, text: text, name: name, seen: seen}
		p.Files[path] = m.make()
	}
	return p, nil
}

// maker makes the mutants of a file.
type maker struct {
	p     *Package
	fset  *token.FileSet
	file  *ast.File
	pkg   *types.Package
	info  *types.Info
	text  []byte
	name  string
	seen  map[string]int // how often an ID was given
	stack []ast.Node     // where the maker is, from the file to the node
	fn    string
	edits []edit
}

// edit puts a text in the place of another. Of those at one place, the one whose node ends later
// stands further outside.
type edit struct {
	at, till, order int
	put             string
}

func (m *maker) make() []byte {
	m.visit(m.file)
	slices.SortStableFunc(m.edits, func(a, b edit) int {
		if a.at != b.at {
			return a.at - b.at
		}
		return a.order - b.order
	})
	var out bytes.Buffer
	at := 0
	for _, e := range m.edits {
		out.Write(m.text[at:e.at])
		out.WriteString(e.put)
		at = e.till
	}
	out.Write(m.text[at:])
	return out.Bytes()
}

func (m *maker) visit(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			m.stack = m.stack[:len(m.stack)-1]
			return true
		}
		inside := m.enter(n)
		if inside {
			m.stack = append(m.stack, n)
		}
		return inside
	})
}

func (m *maker) offset(p token.Pos) int { return m.fset.Position(p).Offset }

func (m *maker) source(n ast.Node) string { return string(m.text[m.offset(n.Pos()):m.offset(n.End())]) }

// id gives the next mutant its number.
func (m *maker) id(kind string, n ast.Node) int {
	text := strings.Join(strings.Fields(m.source(n)), " ")
	if most := 70; len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	id := fmt.Sprintf("%s %s %s: %s", m.name, m.fn, kind, text)
	m.seen[id]++
	if k := m.seen[id]; k > 1 {
		id += fmt.Sprintf(" #%d", k)
	}
	m.p.IDs = append(m.p.IDs, id)
	return len(m.p.IDs)
}

// wrap puts texts around a node.
func (m *maker) wrap(n ast.Node, before, after string) {
	at, till := m.offset(n.Pos()), m.offset(n.End())
	// What begins at a place is further outside if it ends later; at one place, ends stand before beginnings.
	m.edits = append(m.edits,
		edit{at, at, 1<<30 - till + len(m.stack), before},
		edit{till, till, -at - len(m.stack), after})
}

func (m *maker) put(at, till token.Pos, text string) {
	m.edits = append(m.edits, edit{m.offset(at), m.offset(till), 1 << 31, text})
}

func (m *maker) parent(up int) ast.Node { return m.stack[len(m.stack)-up] }

// enter makes the mutants of a node, and says whether to look inside.
func (m *maker) enter(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.FuncDecl:
		m.fn = n.Name.Name
		if n.Recv != nil {
			recv, _, _ := strings.Cut(strings.TrimLeft(m.source(n.Recv.List[0].Type), "*"), "[")
			m.fn = recv + "." + m.fn
		}
		if n.Body == nil {
			return false
		}
		m.stack = append(m.stack, n)
		m.visit(n.Body)
		m.stack = m.stack[:len(m.stack)-1]
		m.fn = ""
		return false
	case *ast.ArrayType, *ast.FuncType, *ast.StructType, *ast.InterfaceType, *ast.ImportSpec:
		return false
	case *ast.ReturnStmt:
		m.results(n)
	case ast.Stmt:
		m.stmt(n)
	case ast.Expr:
		return m.expr(n)
	}
	return true
}

// stmt makes mutants without a statement, and with a condition that is always, or never, true.
func (m *maker) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.IfStmt:
		m.condition(s.Cond)
	case *ast.ForStmt:
		if s.Cond != nil {
			m.wrap(s.Cond, fmt.Sprintf("!mutantIs(%d) && (", m.id("never", s.Cond)), ")")
		}
	case *ast.CaseClause:
		if sw, is := m.parent(2).(*ast.SwitchStmt); is && sw.Tag == nil {
			for _, e := range s.List {
				m.condition(e)
			}
		}
	}
	if !m.inList(s) || !m.droppable(s) {
		return
	}
	m.wrap(s, fmt.Sprintf("if !mutantIs(%d) { ", m.id("drop", s)), " }")
}

func (m *maker) condition(e ast.Expr) {
	always, never := m.id("always", e), m.id("never", e)
	m.wrap(e, fmt.Sprintf("mutantIs(%d) || !mutantIs(%d) && (", always, never), ")")
}

// inList reports whether a statement is one of several, and not a part of another.
func (m *maker) inList(s ast.Stmt) bool {
	var list []ast.Stmt
	switch p := m.parent(1).(type) {
	case *ast.BlockStmt:
		list = p.List
	case *ast.CaseClause:
		list = p.Body
	case *ast.CommClause:
		list = p.Body
	}
	return slices.Contains(list, s)
}

func (m *maker) droppable(s ast.Stmt) bool {
	var call ast.Expr
	switch s := s.(type) {
	case *ast.AssignStmt:
		if m.freesElement(s) {
			return false
		}
		blank := !slices.ContainsFunc(s.Lhs, func(e ast.Expr) bool { return m.source(e) != "_" })
		_, isCall := s.Rhs[0].(*ast.CallExpr)
		return s.Tok != token.DEFINE && (!blank || isCall)
	case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE || s.Tok == token.BREAK
	case *ast.DeferStmt:
		if m.freesTimer(s.Call) {
			return false
		}
		call = s.Call
	case *ast.ExprStmt:
		call = s.X
	}
	c, is := call.(*ast.CallExpr)
	if !is {
		return call != nil
	}
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name != "panic"
	case *ast.SelectorExpr: // without these, the next one hangs or panics, or nothing happens
		if t := m.info.Types[f.X].Type; t != nil && strings.TrimPrefix(t.String(), "*") == "sync.Pool" {
			return false
		}
		return !slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock", "Grow", "KeepAlive", "Gosched", "Helper"}, f.Sel.Name)
	}
	return true
}

// freesElement reports whether a statement sets an element of a slice to nil, or clips a slice.
func (m *maker) freesElement(s *ast.AssignStmt) bool {
	index, is := s.Lhs[0].(*ast.IndexExpr)
	if is && len(s.Lhs) == 1 && m.source(s.Rhs[0]) == "nil" {
		_, isSlice := m.info.Types[index.X].Type.Underlying().(*types.Slice)
		return isSlice
	}
	call, is := s.Rhs[0].(*ast.CallExpr)
	return is && slices.Contains([]string{"slices.Clip", "slices.Grow"}, m.source(call.Fun))
}

// freesTimer reports whether a call stops a timer or cancels a context.
func (m *maker) freesTimer(c *ast.CallExpr) bool {
	if t := m.info.Types[c.Fun].Type; t != nil && t.String() == "context.CancelFunc" {
		return true
	}
	f, is := c.Fun.(*ast.SelectorExpr)
	if !is || f.Sel.Name != "Stop" {
		return false
	}
	t := m.info.Types[f.X].Type
	return t != nil && slices.Contains([]string{"*time.Timer", "*time.Ticker"}, t.String())
}

// results makes mutants that return nothing, no error, or the opposite.
func (m *maker) results(r *ast.ReturnStmt) {
	fields := m.signature().Results
	if len(r.Results) == 0 {
		return
	}
	var kinds []ast.Expr
	for _, f := range fields.List {
		for range max(1, len(f.Names)) {
			kinds = append(kinds, f.Type)
		}
	}
	if len(kinds) != len(r.Results) {
		return
	}
	zero := make([]string, len(kinds))
	worth := false
	for i, e := range r.Results {
		t := m.info.Types[e]
		if m.source(kinds[i]) == "bool" {
			if t.Value != nil || !isLogic(e) {
				m.wrap(e, fmt.Sprintf("mutantIs(%d) != (", m.id("not", e)), ")")
			} else {
				m.condition(e)
			}
		} else if text := m.source(e); text != "nil" && !strings.HasSuffix(text, "{}") && !isZero(t) {
			worth = true
		}
		zero[i] = "*new(" + m.source(kinds[i]) + ")"
		ast.Inspect(kinds[i], func(n ast.Node) bool {
			if name, is := n.(*ast.Ident); is { // is it still the name of the type?
				_, o := m.pkg.Scope().Innermost(r.Pos()).LookupParent(name.Name, r.Pos())
				_, variable := o.(*types.Var)
				worth = worth && !variable
			}
			return true
		})
	}
	if worth {
		m.wrap(r, fmt.Sprintf("if mutantIs(%d) { return %s }; ", m.id("nothing", r), strings.Join(zero, ", ")), "")
	}
}

// isZero reports whether an expression is a constant that is 0 or an empty text.
func isZero(t types.TypeAndValue) bool {
	return t.Value != nil && slices.Contains([]string{"0", `""`}, t.Value.ExactString())
}

// isLogic reports whether && or || joins an expression, whose conditions have mutants of their own.
func isLogic(e ast.Expr) bool {
	b, is := e.(*ast.BinaryExpr)
	return is && (b.Op == token.LAND || b.Op == token.LOR)
}

func (m *maker) signature() *ast.FuncType {
	for _, n := range slices.Backward(m.stack) {
		switch n := n.(type) {
		case *ast.FuncLit:
			return n.Type
		case *ast.FuncDecl:
			return n.Type
		}
	}
	panic("a return outside of functions")
}

// expr makes mutants of an expression, and says whether to look inside.
func (m *maker) expr(e ast.Expr) bool {
	t := m.info.Types[e]
	if t.Value != nil || t.IsType() {
		if t.Value != nil {
			m.number(e, t)
		}
		return false
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		m.binary(e)
	case *ast.CallExpr:
		if m.isSizeOrChance(e) {
			return false
		}
		if f, is := e.Fun.(*ast.Ident); is && (f.Name == "min" || f.Name == "max") && isBuiltin(m.info.Uses[f]) {
			first := 0
			for i, arg := range e.Args {
				if id := m.id(f.Name+" without", arg); i == 0 {
					first = id
				}
			}
			m.put(f.Pos(), e.Lparen+1, fmt.Sprintf("mutant%s(%d, ", strings.ToUpper(f.Name[:1])+f.Name[1:], first))
		}
	case *ast.KeyValueExpr:
		if lit, is := m.parent(1).(*ast.CompositeLit); is {
			m.field(lit, e)
		}
	}
	return true
}

// isSizeOrChance reports whether a call makes a map, or a slice that is empty, or draws a random number.
func (m *maker) isSizeOrChance(e *ast.CallExpr) bool {
	if strings.HasPrefix(m.source(e.Fun), "rand.") {
		return true
	}
	if f, is := e.Fun.(*ast.Ident); !is || f.Name != "make" || !isBuiltin(m.info.Uses[f]) {
		return false
	}
	_, isMap := m.info.Types[e].Type.Underlying().(*types.Map)
	return isMap || len(e.Args) == 3 && m.source(e.Args[1]) == "0"
}

func isBuiltin(o types.Object) bool { _, is := o.(*types.Builtin); return is }

func (m *maker) binary(e *ast.BinaryExpr) {
	switch e.Op {
	case token.LAND:
		m.wrap(e.X, fmt.Sprintf("(mutantIs(%d) || (", m.id("without", e.X)), "))")
		m.wrap(e.Y, fmt.Sprintf("(mutantIs(%d) || (", m.id("without", e.Y)), "))")
	case token.LOR:
		m.wrap(e.X, fmt.Sprintf("(!mutantIs(%d) && (", m.id("without", e.X)), "))")
		m.wrap(e.Y, fmt.Sprintf("(!mutantIs(%d) && (", m.id("without", e.Y)), "))")
	case token.LSS, token.GEQ, token.LEQ, token.GTR:
		not, f := "", "Less"
		if e.Op == token.GEQ || e.Op == token.GTR {
			not = "!"
		}
		if e.Op == token.LEQ || e.Op == token.GTR {
			f = "Most"
		}
		m.infix(e, not+"mutant"+f, m.id("bound", e))
	case token.ADD, token.SUB:
		if b, is := m.info.Types[e].Type.Underlying().(*types.Basic); is && b.Info()&types.IsNumeric != 0 {
			m.infix(e, map[token.Token]string{token.ADD: "mutantAdd", token.SUB: "mutantSub"}[e.Op], m.id("sign", e))
		}
	}
}

// infix has a function do the work of an operator.
func (m *maker) infix(e *ast.BinaryExpr, f string, id int) {
	m.wrap(e, fmt.Sprintf("%s(%d, ", f, id), ")")
	m.put(e.OpPos, e.OpPos+token.Pos(len(e.Op.String())), ",")
}

// field makes a mutant that leaves a field of a struct out.
func (m *maker) field(lit *ast.CompositeLit, e *ast.KeyValueExpr) {
	s, is := m.info.Types[lit].Type.Underlying().(*types.Struct)
	if !is || m.info.Types[e.Value].Value != nil {
		return
	}
	for f := range s.Fields() {
		if f.Name() == m.source(e.Key) && types.Identical(f.Type(), m.info.Types[e.Value].Type) {
			m.wrap(e.Value, fmt.Sprintf("mutantZero(%d, ", m.id("without field", e)), ")")
		}
	}
}

// number makes a mutant of a constant.
func (m *maker) number(e ast.Expr, t types.TypeAndValue) {
	b, is := t.Type.Underlying().(*types.Basic)
	if !is || b.Info()&types.IsNumeric == 0 || b.Info()&types.IsComplex != 0 || slices.Contains([]string{"0", "1", "-1"}, t.Value.ExactString()) {
		return // 0 and 1 most often say where something begins
	}
	switch p := m.parent(1).(type) {
	case *ast.KeyValueExpr:
		if p.Key == e {
			return // it may have to be a constant
		}
	case *ast.CallExpr:
		if m.source(p.Fun) == "make" {
			return
		}
	case *ast.BinaryExpr:
		if p.Op == token.SHL || p.Op == token.SHR {
			return
		}
	}
	known := true
	kind := types.TypeString(types.Default(t.Type), func(p *types.Package) string {
		if p == m.pkg {
			return ""
		}
		known = known && slices.ContainsFunc(m.file.Imports, func(s *ast.ImportSpec) bool {
			return s.Name == nil && s.Path.Value == strconv.Quote(p.Path())
		})
		return p.Name()
	})
	if known {
		m.wrap(e, fmt.Sprintf("mutantValue[%s](%d, ", kind, m.id("number", e)), ")")
	}
}
