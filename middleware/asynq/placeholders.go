package guardasynq

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// source is what the placeholders of one key are read from.
type source struct {
	ctx  context.Context //nolint:containedctx // lives for one call
	task *asynq.Task

	payload *payload // decoded when first asked for
}

var placeholders = keytemplate.Grammar[*source]{
	Kinds: map[string]keytemplate.Bind[*source]{
		"task":   bindTask,
		"header": bindHeader,
	},
	Bare: bindField,
}

func bindField(path string) (keytemplate.Extract[*source], error) {
	fields := strings.Split(path, ".")
	if slices.Contains(fields, "") {
		return nil, fmt.Errorf("%q is not the path of a field", path)
	}
	return func(src *source) (string, error) {
		if src.payload == nil {
			src.payload = newPayload(src.task.Payload())
		}
		return src.payload.field(fields)
	}, nil
}

func bindHeader(name string) (keytemplate.Extract[*source], error) {
	return func(src *source) (string, error) { return src.task.Headers()[name], nil }, nil
}

func bindTask(name string) (keytemplate.Extract[*source], error) {
	switch name {
	case "type":
		return func(src *source) (string, error) { return src.task.Type(), nil }, nil
	case "id":
		return fromContext(asynq.GetTaskID), nil
	case "queue":
		return fromContext(asynq.GetQueueName), nil
	}
	return nil, fmt.Errorf("%q is none of type, id, queue", name)
}

func fromContext(get func(context.Context) (string, bool)) keytemplate.Extract[*source] {
	return func(src *source) (string, error) {
		value, ok := get(src.ctx)
		if !ok {
			return "", keytemplate.Unfit("the context is not that of a task on a server")
		}
		return value, nil
	}
}
