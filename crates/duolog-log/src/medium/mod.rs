//! What logs are kept on.

pub mod files;
