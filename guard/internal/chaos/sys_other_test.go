//go:build !linux

package chaos_test

import (
	"os"
	"os/exec"
)

const canStop = false

func dieWithParent(*exec.Cmd) {}

func stopProcess(*os.Process) error { return nil }
func wakeProcess(*os.Process) error { return nil }
func dumpProcess(*os.Process) error { return nil }
