//! HTTP: remote write, report pages, health and own metrics.
