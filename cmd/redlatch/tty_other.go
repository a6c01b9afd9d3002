//go:build !unix

package main

import "os"

// terminalWidth is 0 if f is no terminal.
func terminalWidth(*os.File) int { return 0 }
