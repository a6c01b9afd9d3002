package redisconn

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// batchMost is how many commands share one call of a script. Redis runs nothing else meanwhile.
const batchMost = 128

// ofOtherSlots says that Redis refused a call because its keys are not in one slot: one address leads to a cluster.
func ofOtherSlots(err error) bool { return err != nil && redis.HasErrorPrefix(err, "CROSSSLOT") }

// unpack calls answer for each command of a call, by its index, or again if the command is to be sent by itself: what
// Redis did not do, and all commands of a call that Redis refused. Whatever was done then is found done, as any command
// may be executed twice.
func (cmds call) unpack(reply any, err error, answer func(i int, reply any, err error), again func(i int)) {
	var refusal redis.Error
	refused := errors.As(err, &refusal)
	replies, _ := reply.([]any)
	for i := range cmds {
		switch {
		case err != nil && !refused:
			answer(i, nil, err)
		case err == nil && len(replies) == len(cmds) && replies[i] != nil:
			refusal, _ := replies[i].(error)
			answer(i, replies[i], refusal)
		default:
			again(i)
		}
	}
}
