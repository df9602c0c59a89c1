//! Ways in; each ends in a [`crate::sample::Batch`].
