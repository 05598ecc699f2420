//! Real processes, killed.
