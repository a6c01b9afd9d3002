package guardasynq_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func TestCheck_NamesRowsThatNoTaskHas(t *testing.T) {
	t.Parallel()
	tasks := guardasynq.Tasks{
		"order:":       guardasynq.Lock("order:{id}"),
		"order:charge": guardasynq.Lock("charge:{id}"),
		"report:build": guardasynq.Lock("report"),
		"repotr:":      guardasynq.Lock("report"),
	}
	assert.EqualError(t, guardasynq.Check([]string{"order:pay", "order:charge:now", "report:", "mail:send"}, tasks),
		`guardasynq: row "report:build": no task of the given types has it
guardasynq: row "repotr:": no task of the given types has it`)
	delete(tasks, "repotr:")
	assert.NoError(t, guardasynq.Check([]string{"order:pay", "order:charge", "report:build:daily"}, tasks))
	assert.EqualError(t, guardasynq.Check([]string{"order:charge", "report:build"}, tasks),
		`guardasynq: row "order:": no task of the given types has it`, "each has a longer row")
	assert.EqualError(t, guardasynq.Check([]string{" "}, guardasynq.Tasks{" ": {}}), `guardasynq: row " ": it is blank`)
	assert.ErrorContains(t, guardasynq.Check(nil, tasks), `row "order:"`)
	assert.NoError(t, guardasynq.Check(nil, nil))
}
