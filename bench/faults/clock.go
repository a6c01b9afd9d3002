package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

const (
	serverVariable = "REDLATCH_REDIS_SERVER" // of redistest
	clockFile      = "clock"                 // in the directory of each server
)

// clockWrapper starts a redis-server that adds to its wall clock what clockFile says.
const clockWrapper = `#!/bin/sh
[ -f %[3]s ] || printf '\0\0\0\0\0\0\0\0' > %[3]s
REDLATCH_CHAOS_CLOCK="$PWD/%[3]s" LD_PRELOAD='%[2]s' exec '%[1]s' "$@"
`

// ownClocks has the servers that are started from now on go by clocks of their own, as those
// of package chaos do. dir has to stay.
func ownClocks(dir string) error {
	server, err := exec.LookPath(cmp.Or(os.Getenv(serverVariable), "redis-server"))
	if err != nil {
		return fmt.Errorf("redis-server is not installed: %w", err)
	}
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "../../guard/internal/chaos/testdata/clock.c")
	library, wrapper := filepath.Join(dir, "clock.so"), filepath.Join(dir, "redis-server")

	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		return fmt.Errorf("cc: %w: %s", err, out)
	}
	text := fmt.Sprintf(clockWrapper, server, library, clockFile)
	return errors.Join(
		os.WriteFile(wrapper, []byte(text), 0o700),
		os.Setenv(serverVariable, wrapper),
	)
}

// setClock moves the wall clock of the server that has its data in dir, this far from the
// machine's.
func setClock(dir string, ahead time.Duration) error {
	text := binary.NativeEndian.AppendUint64(nil, uint64(ahead))
	f, err := os.OpenFile(filepath.Join(dir, clockFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	return errors.Join(err, f.Close())
}
