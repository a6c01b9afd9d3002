-- name: Amount :one
SELECT amount FROM stock WHERE id = $1;

-- name: SetAmount :exec
UPDATE stock SET amount = $1 WHERE id = $2;
