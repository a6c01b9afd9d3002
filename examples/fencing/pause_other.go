//go:build !unix

package main

import "errors"

var errNoSignals = errors.New("this system cannot stop a process")

func (p *process) pause() error { return errNoSignals }

func (p *process) resume() error { return errNoSignals }
