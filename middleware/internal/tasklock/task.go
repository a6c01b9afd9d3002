package tasklock

import (
	"fmt"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Task is a task for key functions, conditions and Once, whichever queue it came from. ID and Queue are empty if the task did
// not come from a server of the queue, as in a test.
type Task struct {
	// Kind is the type of an asynq task and the kind of a River job. Of a watermill message it is the metadata "name", which
	// watermill's package cqrs writes, or else the topic. With Once, it is a part of the input.
	Kind string
	// ID is the same each time that the task is delivered.
	ID string
	// Queue is the queue of an asynq task or a River job, and the topic of a watermill message.
	Queue string
	// Payload is the payload of an asynq task or a watermill message, and the encoded arguments of a River job.
	Payload []byte
	// Header returns a header of an asynq task, the metadata of a watermill message, or a field of the metadata of a River
	// job. Case matters. It returns "" if there is none.
	Header func(name string) string
	// Native is the *asynq.Task, *rivertype.JobRow or *message.Message itself.
	Native any
}

// words are the placeholders of all queues.
var words = locking.Grammar[*Work]{
	Kinds: map[string]locking.Bind[*Work]{"task": bindTask, "header": bindHeader},
	Bare:  bindField,
}

var errNoQueue = locking.Unfit("the task did not come from a server of its queue")

func bindTask(name string) (locking.Extract[*Work], error) {
	var word func(t *Task) string
	switch name {
	case "kind":
		word = func(t *Task) string { return t.Kind }
	case "id":
		word = func(t *Task) string { return t.ID }
	case "queue":
		word = func(t *Task) string { return t.Queue }
	default:
		return nil, fmt.Errorf("%q is none of kind, id, queue", name)
	}
	return func(w *Work) (string, error) {
		value := word(&w.Task)
		if value == "" {
			return "", errNoQueue
		}
		return value, nil
	}, nil
}

func bindHeader(name string) (locking.Extract[*Work], error) {
	return func(w *Work) (string, error) {
		if w.Header == nil {
			return "", nil
		}
		return w.Header(name), nil
	}, nil
}

func bindField(path string) (locking.Extract[*Work], error) {
	fields, err := fieldsOf(path)
	return func(w *Work) (string, error) { return find(w.Payload, fields) }, err
}
