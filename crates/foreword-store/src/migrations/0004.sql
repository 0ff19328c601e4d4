-- How many commits were made. A file beside the database remembers how many of them were acknowledged.
CREATE TABLE commits (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    number  INTEGER NOT NULL
) STRICT;
INSERT INTO commits (id, number) VALUES (1, 0);

-- Every row that has no sum yet gets one over its other columns, so that `check` sees each changed bit.
ALTER TABLE agents ADD COLUMN sum BLOB;
ALTER TABLE branches ADD COLUMN sum BLOB;
ALTER TABLE sessions ADD COLUMN sum BLOB;
ALTER TABLE parts ADD COLUMN sum BLOB;
ALTER TABLE placed ADD COLUMN sum BLOB;
ALTER TABLE context ADD COLUMN sum BLOB;
ALTER TABLE ledger ADD COLUMN sum BLOB;
ALTER TABLE outbox ADD COLUMN sum BLOB;
ALTER TABLE summaries ADD COLUMN sum BLOB;
ALTER TABLE checkpoints ADD COLUMN sum BLOB;
ALTER TABLE journals ADD COLUMN sum BLOB;
ALTER TABLE forwarded ADD COLUMN answer_sum BLOB; -- over what came of it
UPDATE agents SET sum = foreword_sum(hash, first_ms);
UPDATE branches SET sum = foreword_sum(id, parent, inputs, requests, session);
UPDATE sessions SET sum = foreword_sum(id, branch, title, created_ms, touched_ms, agent, setup, forked_from, transcript);
UPDATE parts SET sum = foreword_sum(branch, number, text);
UPDATE placed SET sum = foreword_sum(branch, position, since, until, message);
UPDATE context SET sum = foreword_sum(branch, position, since, until, item, entry);
UPDATE ledger SET sum = foreword_sum(branch, request, model, read, write, uncached, output, cost, cost_uncached, broke, first_token_ms, total_ms);
UPDATE outbox SET sum = foreword_sum(branch, hash);
UPDATE summaries SET sum = foreword_sum(branch, number, at_ms, template, source, hash, model, record);
UPDATE checkpoints SET sum = foreword_sum(branch, inputs, requests, body);
UPDATE journals SET sum = foreword_sum(name, taken, numbers);
UPDATE forwarded SET answer_sum = foreword_sum(id, status, read, write, uncached, output, cost, cost_uncached, first_token_ms, total_ms);
