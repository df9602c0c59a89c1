-- By which teams weeks were delivered; the version of a week stays.
CREATE TABLE team_versions (
    version       BIGINT           NOT NULL PRIMARY KEY, -- 1, and one more for each other content
    valid_from_ms BIGINT           NOT NULL, -- start of the first week that was delivered with it
    content       TEXT COLLATE "C" NOT NULL, -- JSON object: the teams as they were configured
    checksum      BIGINT
);

-- What each team had in the weeks that were delivered.
CREATE TABLE report_teams (
    week        TEXT COLLATE "C" NOT NULL, -- ISO week, such as 2026-W47
    version     BIGINT           NOT NULL, -- of team_versions
    team        TEXT COLLATE "C" NOT NULL, -- or unassigned, or platform
    class       TEXT COLLATE "C" NOT NULL,
    currency    TEXT COLLATE "C" NOT NULL, -- three letters (ISO 4217); empty: no price applied
    ms          BIGINT           NOT NULL, -- GPU-milliseconds
    money_micro BIGINT           NOT NULL, -- millionths of the currency
    checksum    BIGINT,
    PRIMARY KEY (week, team, class, currency)
);
