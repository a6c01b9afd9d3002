package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// DieWithParent has the kernel kill a process when the thread that starts it
// ends, so that a test binary killed with -9 leaves none. It needs
// a thread that outlives the process: see process.run.
func DieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stopPatience is how long a process may take to stand still.
const stopPatience = 10 * time.Second

// Stop suspends a process, and returns when all of its threads stand still. The signal
// alone takes its time: on a busy machine a thread runs for some milliseconds more.
func Stop(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for end := time.Now().Add(stopPatience); !standsStill(p.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("it does not stop")
		}
	}
	return nil
}

// standsStill also says so of a process that is gone.
func standsStill(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, _ := os.ReadFile(thread)
		// The name in front of the state is in parentheses, and may have some itself.
		state := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		if state != "" && !strings.ContainsAny(state[:min(len(state), 2)], "TtZX") {
			return false
		}
	}
	return true
}

// Resume lets a process that was stopped go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
