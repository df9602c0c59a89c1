//! Files that NCCL's Inspector plug-in writes, which any user may have made: found without following a link, read by pieces
//! with bounds, and led to the process that writes them.
//!
//! Nothing is created, changed or deleted here, and no file costs another one.

mod beneath;
pub mod folder;
pub mod tail;
pub mod whose;
