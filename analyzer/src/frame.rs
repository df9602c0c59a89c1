//! Signals on the grid: typed values per GPU, node and job for every cell, derived from stored samples.
