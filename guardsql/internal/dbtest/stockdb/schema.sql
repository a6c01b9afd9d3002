CREATE TABLE stock (id text PRIMARY KEY, amount bigint NOT NULL);
