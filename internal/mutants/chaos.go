package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// rule is a rule that only real processes and real faults show to be broken.
type rule struct {
	name     string
	file     string // from the root; was is in it once
	was, is  string
	topology string // of package chaos
	says     string // a part of what the run has to say
}

const (
	scripts = "guard/internal/redisstore/lua/"
	twice   = "was believed in until"
)

var rules = []rule{
	{"no local deadline", "guard/internal/watchdog/grant.go", "ttl/10", "ttl/10 + 24*time.Hour", "single", twice},
	{"fences frozen", scripts + "acquire.lua", "'held ' .. fence", "'held 17'", "single", "has the fence of lease"},
	{"fences that are remembered for too long", scripts + "hold.lua", "(fence - at)", "fence", "single", ", longer than "},
	{"fences that are taken ahead of time", scripts + "acquire.lua", "time[1] ..", "time[1] + 60 ..", "single", "further ahead of every clock"},
	{
		"permits that are not counted", scripts + "lock.lua", "found.count == 0 or", "found.limit > 1 and limit_of(owner) > 1 or",
		"single", twice,
	},
	{"a release without its owner check", scripts + "release.lua", "how == '' and", "how == '' or", "single", twice},
	{"locks that are kept too short", scripts + "release.lua", "min_hold - math.max", "min_hold / 4 - math.max", "single", "was to keep the lock for"},
	{"no high water", "guard/internal/redisstore/serverclock.go", "c.ceiling.most(came)", "0", "single", "which has the lower fence"},
	{"a minority is a quorum", "guard/quorum/store.go", "len(nodes)/2 + 1", "len(nodes) / 2", "quorum", twice},
}

// broken is the text of the rule's file with the rule broken.
func (r *rule) broken(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, r.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), r.was); n != 1 {
		return nil, fmt.Errorf("%s: its text is in %s %d times, not once", r.name, r.file, n)
	}
	return []byte(strings.Replace(string(text), r.was, r.is, 1)), nil
}

// runChaos breaks each rule, and runs package chaos with a few seeds until it notices.
func runChaos(ctx context.Context, root string) (err error) {
	for _, r := range rules {
		noticed, failure := r.try(ctx, root)
		if failure == nil && !noticed {
			failure = fmt.Errorf("%s: no run notices", r.name)
		}
		fmt.Printf("%-55s noticed: %v\n", r.name, noticed)
		err = errors.Join(err, failure, ctx.Err())
	}
	return err
}

func (r *rule) try(ctx context.Context, root string) (noticed bool, err error) {
	text, err := r.broken(root)
	if err != nil {
		return false, err
	}
	t, err := newTree(root)
	if err != nil {
		return false, err
	}
	defer t.remove()
	if err := t.replace(r.file, text); err != nil {
		return false, err
	}
	const pkg = "./guard/internal/chaos"
	path, err := t.program(ctx, pkg)
	if err != nil {
		return false, err
	}
	for seed := 1; seed <= 5 && !noticed; seed++ {
		_, said, err := t.test(ctx, pkg, path, []string{
			"-test.run=^TestChaos$", "-topology=" + r.topology, "-duration=20s", fmt.Sprint("-seed=", seed),
		}, cleanRun)
		if err != nil {
			return false, err
		}
		noticed = strings.Contains(said, r.says)
	}
	return noticed, nil
}
