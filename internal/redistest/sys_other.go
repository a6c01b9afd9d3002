//go:build !unix

package redistest

import (
	"errors"
	"os"
	"os/exec"
)

// DieWithParent does nothing here.
func DieWithParent(*exec.Cmd) {}

// Stop is not to be had here.
func Stop(*os.Process) error { return errors.ErrUnsupported }

// Resume is not to be had here.
func Resume(*os.Process) error { return errors.ErrUnsupported }
