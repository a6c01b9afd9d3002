package inspect

import (
	"cmp"
	"context"

	"github.com/redis/go-redis/v9"
)

// names are the names of instances, as far as they were read.
type names struct {
	i    *Inspector
	byID map[string]string
}

func (i *Inspector) newNames() *names { return &names{i, make(map[string]string)} }

// put replaces the ids of instances by their names, or by the first digits of the ids. Names
// are for people: if Redis does not return them, that is no error.
func (n *names) put(ctx context.Context, infos ...Info) {
	var unknown []string
	each(infos, func(id *string) {
		if _, asked := n.byID[*id]; !asked {
			n.byID[*id] = short(*id)
			unknown = append(unknown, *id)
		}
	})
	cmds := make([]*redis.StringCmd, len(unknown))
	err := heed(ctx, func() {
		pipe := n.i.client.Pipeline()
		for i, id := range unknown {
			cmds[i] = pipe.Get(ctx, n.i.prefix+":instance:"+id)
		}
		_, _ = pipe.Exec(ctx) // each command keeps its own error
	})
	if err == nil {
		for i, id := range unknown {
			n.byID[id] = cmp.Or(cmds[i].Val(), n.byID[id])
		}
	}
	each(infos, func(id *string) { *id = n.byID[*id] })
}

func each(infos []Info, do func(id *string)) {
	for _, info := range infos {
		for h := range info.Holders {
			do(&info.Holders[h].Instance)
		}
		for w := range info.Waiting {
			do(&info.Waiting[w].Instance)
		}
		if info.Record != nil {
			do(&info.Record.Instance)
		}
	}
}
