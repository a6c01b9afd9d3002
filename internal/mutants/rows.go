package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/redlatch/redlatch/internal/mutants/table"
)

// try breaks a rule in a tree, runs tests until one notices, and puts the rule back.
func (t *tree) try(ctx context.Context, r *table.Row) (by, said string, err error) {
	text, err := os.ReadFile(filepath.Join(t.root, r.File))
	if err != nil {
		return "", "", err
	}
	broken, err := r.Broken(string(text))
	if err != nil {
		return "", "", err
	}
	if strings.HasSuffix(r.File, ".lua") {
		if err := t.scriptsFromDisk(); err != nil {
			return "", "", err
		}
		file := filepath.Join(t.dir, "scripts", r.File)
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			return "", "", err
		}
		defer func() { _ = os.WriteFile(file, text, 0o600) }()
	} else {
		t.restore()
		if err := t.replace(r.File, []byte(broken)); err != nil {
			return "", "", err
		}
	}
	for _, args := range r.Tests[:min(*near, len(r.Tests))] {
		by, said, err = t.test(ctx, args, *timeout)
		if err != nil || by != "" && strings.Contains(said, r.Says) {
			return by, said, err
		}
	}
	return "", "", nil
}

// What matches a script, or a folder of them, that is part of a program; and one that was.
var (
	embedded   = regexp.MustCompile(`//go:embed (lua/\S+)\n\t(\w+) string`)
	folder     = regexp.MustCompile(`(?m)^//go:embed lua\nvar lua embed\.FS$`)
	onDiskCall = regexp.MustCompile("(?m)^(\t\\w+|var lua) = scripts?OnDisk\\(`")
)

// scriptsFromDisk has programs read their scripts from a folder of the tree when they start. So a rule
// of a script is broken in programs that are compiled already.
func (t *tree) scriptsFromDisk() error {
	if _, is := t.replaced[filepath.Join(t.root, scriptsAre[0], "script_on_disk.go")]; is {
		return nil
	}
	t.restore()
	for _, dir := range scriptsAre {
		copied := filepath.Join(t.dir, "scripts", dir)
		if err := os.MkdirAll(copied, 0o700); err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(copied, "lua"), os.DirFS(filepath.Join(t.root, dir, "lua"))); err != nil && !os.IsExist(err) {
			return err
		}
		files, err := fs.Glob(os.DirFS(filepath.Join(t.root, dir)), "*.go")
		if err != nil {
			return err
		}
		for _, name := range files {
			text, err := os.ReadFile(filepath.Join(t.root, dir, name))
			if err != nil {
				return err
			}
			text = embedded.ReplaceAll(text, []byte("$2 = scriptOnDisk(`"+copied+"/$1`)"))
			if folder.Match(text) {
				text = folder.ReplaceAll(text, []byte("var lua = scriptsOnDisk(`"+copied+"`)"))
				text = bytes.Replace(text, []byte("\"embed\""), []byte("_ \"embed\""), 1)
			}
			if !onDiskCall.Match(text) {
				continue
			}
			if err := t.replace(filepath.Join(dir, name), text); err != nil {
				return err
			}
			if err := t.replace(filepath.Join(dir, "script_on_disk.go"), onDisk(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// scriptsAre the folders that have scripts.
var scriptsAre = []string{"guard/internal/redisstore", "guard/quorum", "guard/inspect"}

// onDisk is what reads scripts from disk.
func onDisk(text []byte) []byte {
	head := regexp.MustCompile(`(?m)^package \w+$`).Find(text)
	return append(head, `

import "os"

func scriptOnDisk(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

type scriptsOnDisk string

func (dir scriptsOnDisk) ReadFile(name string) ([]byte, error) {
	return os.ReadFile(string(dir) + "/" + name)
}
`...)
}
