//! The vocabulary: which metric names, of whose exporter, mean which signal. Nothing else knows metric names.
