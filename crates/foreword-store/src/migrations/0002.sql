-- Requests of clients that were passed on untouched, and what came of them.
CREATE TABLE forwarded (
    id              INTEGER PRIMARY KEY,
    at_ms           INTEGER NOT NULL,
    front           TEXT NOT NULL,
    model           TEXT NOT NULL,
    session         TEXT, -- the one the client named
    pieces          BLOB NOT NULL, -- the hashes of the body's pieces, 32 bytes each
    sum             BLOB NOT NULL, -- the hash of the columns before it
    status          INTEGER, -- none while there is no answer, and where there was none
    read            INTEGER NOT NULL DEFAULT 0,
    write           INTEGER NOT NULL DEFAULT 0,
    uncached        INTEGER NOT NULL DEFAULT 0,
    output          INTEGER NOT NULL DEFAULT 0,
    cost            REAL NOT NULL DEFAULT 0,
    cost_uncached   REAL NOT NULL DEFAULT 0,
    first_token_ms  INTEGER,
    total_ms        INTEGER
) STRICT;
CREATE INDEX forwarded_by_session ON forwarded (session) WHERE session IS NOT NULL;
