package guard

import (
	"fmt"
	"unicode/utf8"
)

const (
	// maxInstanceLength is the longest name of an instance, in bytes.
	maxInstanceLength = 128
)

// Instance names this Guard to people: package inspect, and the programs built on it, show it for
// holders and waiting processes. While the Guard holds or wants a lock it
// writes the name to Redis every 20 s, where it stays for a minute. The name is no secret.
// The default is the host's name and the process's id, as in "web-7:4711"; an empty name
// switches this off. A name is UTF-8 and has at most 128 bytes. A Guard by NewWithStore
// publishes it only if the store has a method Announce, see package guardstore.
func Instance(name string) Option {
	return guardOption(func(c *config) error {
		switch {
		case len(name) > maxInstanceLength:
			return &OptionError{"Instance", fmt.Sprintf("has %d bytes, the most is %d", len(name), maxInstanceLength)}
		case !utf8.ValidString(name):
			return &OptionError{"Instance", "is not UTF-8"}
		}
		c.instanceName = &name
		return nil
	})
}
