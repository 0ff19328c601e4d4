-- The files beside the database that hold what is on its way into it.
CREATE TABLE journals (
    name    TEXT PRIMARY KEY,
    taken   INTEGER NOT NULL, -- the last of its writes that is in the database
    numbers INTEGER NOT NULL -- the last number that it may give to a request that is passed on
) STRICT, WITHOUT ROWID;
