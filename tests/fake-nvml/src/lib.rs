//! A `libnvidia-ml.so.1` without a GPU.
