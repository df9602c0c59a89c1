//! One scrape: owners, then every collector behind its own deadline and panic boundary.
