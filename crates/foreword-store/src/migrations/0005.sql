-- What else is known of a request that was passed on, and of its answer, as JSON: its level, its client, what was added to it.
ALTER TABLE forwarded ADD COLUMN about TEXT;
ALTER TABLE forwarded ADD COLUMN came TEXT;
UPDATE forwarded SET answer_sum = foreword_sum(id, status, read, write, uncached, output, cost, cost_uncached, first_token_ms, total_ms, about, came);
