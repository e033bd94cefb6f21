CREATE TABLE layer (id TEXT PRIMARY KEY, kind INTEGER NOT NULL, created_ms INTEGER NOT NULL, bytes INTEGER NOT NULL, files INTEGER NOT NULL, diff TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE owner (kind INTEGER NOT NULL, name TEXT NOT NULL, of TEXT, created_ms INTEGER NOT NULL, stamp INTEGER NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID;
CREATE TABLE ref (kind INTEGER NOT NULL, name TEXT NOT NULL, place INTEGER NOT NULL, layer TEXT NOT NULL, PRIMARY KEY (kind, name, place)) WITHOUT ROWID;
CREATE TABLE dir (name TEXT PRIMARY KEY, stamp INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO layer VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 0, 1, 2, 3, '');
INSERT INTO owner VALUES (0, 'gone', NULL, 1, 0);
INSERT INTO ref VALUES (0, 'gone', 0, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa');
PRAGMA user_version = 1;
