//! `why`: one minute of scraping, then a verdict with its evidence.
