-- By which teams weeks were delivered; the version of a week stays.
CREATE TABLE team_versions (
    version       INTEGER NOT NULL PRIMARY KEY, -- 1, and one more for each other content
    valid_from_ms INTEGER NOT NULL, -- start of the first week that was delivered with it
    content       TEXT    NOT NULL, -- JSON object: the teams as they were configured
    checksum      INTEGER
) STRICT;

-- What each team had in the weeks that were delivered.
CREATE TABLE report_teams (
    week        TEXT    NOT NULL, -- ISO week, such as 2026-W47
    version     INTEGER NOT NULL, -- of team_versions
    team        TEXT    NOT NULL, -- or unassigned, or platform
    class       TEXT    NOT NULL,
    currency    TEXT    NOT NULL, -- three letters (ISO 4217); empty: no price applied
    ms          INTEGER NOT NULL, -- GPU-milliseconds
    money_micro INTEGER NOT NULL, -- millionths of the currency
    checksum    INTEGER,
    PRIMARY KEY (week, team, class, currency)
) STRICT, WITHOUT ROWID;
