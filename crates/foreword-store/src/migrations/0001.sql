-- Everything that is long, once, by the SHA-256 of its bytes.
CREATE TABLE texts (
    id    INTEGER PRIMARY KEY,
    hash  BLOB NOT NULL UNIQUE,
    body  BLOB NOT NULL
) STRICT;

CREATE TABLE agents (
    hash      BLOB PRIMARY KEY REFERENCES texts (hash),
    first_ms  INTEGER NOT NULL
) STRICT;

-- A line of history. A fork or a rewind begins a new one, which takes over the first rows of its parent.
CREATE TABLE branches (
    id        INTEGER PRIMARY KEY,
    parent    INTEGER REFERENCES branches (id),
    inputs    INTEGER NOT NULL,
    requests  INTEGER NOT NULL,
    session   TEXT NOT NULL -- whose it is; what a session has left behind goes with it
) STRICT;
CREATE INDEX branches_by_parent ON branches (parent);

CREATE TABLE sessions (
    id               TEXT PRIMARY KEY,
    branch           INTEGER NOT NULL REFERENCES branches (id),
    title            TEXT,
    created_ms       INTEGER NOT NULL,
    touched_ms       INTEGER NOT NULL,
    agent            BLOB NOT NULL REFERENCES agents (hash),
    setup            TEXT NOT NULL,
    forked_from      TEXT,
    transcript       TEXT
) STRICT;
CREATE INDEX sessions_by_branch ON sessions (branch);

-- Everything a session was told, in order. Rows are never changed.
CREATE TABLE log (
    id       INTEGER PRIMARY KEY,
    branch   INTEGER NOT NULL REFERENCES branches (id),
    number   INTEGER NOT NULL,
    run      INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    cut_off  INTEGER NOT NULL DEFAULT 0,
    body     TEXT NOT NULL,
    sum      BLOB NOT NULL, -- the hash of the other columns
    UNIQUE (branch, number)
) STRICT;

-- The reply that is coming in, until it is whole and stands in the log.
CREATE TABLE parts (
    branch  INTEGER NOT NULL REFERENCES branches (id),
    number  INTEGER NOT NULL,
    text    TEXT NOT NULL,
    PRIMARY KEY (branch, number)
) STRICT, WITHOUT ROWID;

-- The envelope of each request. The messages it has are in `placed`, its items in `context`.
CREATE TABLE requests (
    branch    INTEGER NOT NULL REFERENCES branches (id),
    number    INTEGER NOT NULL,
    input     INTEGER NOT NULL,
    run       INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    began     TEXT,
    at_ms     INTEGER NOT NULL,
    combined  BLOB NOT NULL,
    wire      BLOB NOT NULL,
    tokens    INTEGER NOT NULL,
    messages  INTEGER NOT NULL,
    record    TEXT NOT NULL,
    sum       BLOB NOT NULL,
    PRIMARY KEY (branch, number)
) STRICT, WITHOUT ROWID;

-- Which message stood at which place, from request `since` until before request `until`.
CREATE TABLE placed (
    branch    INTEGER NOT NULL REFERENCES branches (id),
    position  INTEGER NOT NULL,
    since     INTEGER NOT NULL,
    until     INTEGER,
    message   BLOB NOT NULL REFERENCES texts (hash),
    PRIMARY KEY (branch, position, since)
) STRICT, WITHOUT ROWID;

CREATE INDEX placed_open ON placed (branch, position) WHERE until IS NULL;

-- Which items a request had, likewise.
CREATE TABLE context (
    branch    INTEGER NOT NULL REFERENCES branches (id),
    position  INTEGER NOT NULL,
    since     INTEGER NOT NULL,
    until     INTEGER,
    item      TEXT NOT NULL,
    entry     TEXT NOT NULL,
    PRIMARY KEY (branch, position, since)
) STRICT, WITHOUT ROWID;

CREATE INDEX context_open ON context (branch, position) WHERE until IS NULL;

CREATE TABLE ledger (
    branch          INTEGER NOT NULL REFERENCES branches (id),
    request         INTEGER NOT NULL,
    model           TEXT NOT NULL,
    read            INTEGER NOT NULL,
    write           INTEGER NOT NULL,
    uncached        INTEGER NOT NULL,
    output          INTEGER NOT NULL,
    cost            REAL NOT NULL,
    cost_uncached   REAL NOT NULL,
    broke           TEXT,
    first_token_ms  INTEGER,
    total_ms        INTEGER,
    PRIMARY KEY (branch, request)
) STRICT, WITHOUT ROWID;

-- Full tool outputs that are kept out of the prompt.
CREATE TABLE outbox (
    branch  INTEGER NOT NULL REFERENCES branches (id),
    hash    BLOB NOT NULL REFERENCES texts (hash),
    PRIMARY KEY (branch, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE summaries (
    branch    INTEGER NOT NULL REFERENCES branches (id),
    number    INTEGER NOT NULL,
    at_ms     INTEGER NOT NULL,
    template  TEXT NOT NULL,
    source    TEXT NOT NULL,
    hash      BLOB NOT NULL,
    model     TEXT NOT NULL,
    record    TEXT NOT NULL,
    PRIMARY KEY (branch, number)
) STRICT, WITHOUT ROWID;

-- A shortcut for going on with a long session; never the record.
CREATE TABLE checkpoints (
    branch    INTEGER PRIMARY KEY REFERENCES branches (id),
    inputs    INTEGER NOT NULL,
    requests  INTEGER NOT NULL,
    body      BLOB NOT NULL
) STRICT;

CREATE VIRTUAL TABLE found USING fts5 (text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2');

CREATE VIEW messages AS
    SELECT id, branch, number, run, CASE kind WHEN 'turn' THEN 'user' WHEN 'tool_result' THEN 'tool' ELSE kind END AS role,
           at_ms, cut_off, body
    FROM log WHERE kind IN ('turn', 'assistant', 'tool_result');
CREATE VIEW runs AS
    SELECT branch, run, min(number) AS first_input, min(at_ms) AS began_ms, max(at_ms) AS ended_ms FROM log GROUP BY branch, run;
CREATE VIEW folds AS
    SELECT branch, number AS request, epoch, began AS reason, at_ms, tokens FROM requests WHERE began IS NOT NULL;
