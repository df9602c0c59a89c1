//! The goodput report: a model computed from intervals, and its renderings.
