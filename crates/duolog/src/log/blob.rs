//! Looking up the full text of a line that was shortened, by the reference in the line.

use std::io::{ErrorKind, Read as _};
use std::sync::Arc;

use duolog_log::{BlobId, Blobs, Disk, Error as LogError};

use super::model::Full;
use crate::error::Result;

/// Finds the text that a line refers to, if its hash matches and it is at most `bytes_max` bytes long.
pub(super) fn find(disk: &Arc<dyn Disk>, reference: &str, bytes_max: usize) -> Result<Full> {
    let Ok(id) = BlobId::from_reference(reference) else { return Ok(Full::Elsewhere) };
    let blobs = Blobs::on(disk);
    match blobs.len(&id)? {
        Some(len) if len > bytes_max as u64 => return Ok(Full::TooLarge(len)),
        Some(_) => {}
        None => return Ok(Full::Missing),
    }
    let mut reader = match blobs.open(&id) {
        Err(LogError::NoBlob(_)) => return Ok(Full::Missing),
        other => other?,
    };
    let mut bytes = Vec::new();
    match reader.read_to_end(&mut bytes) {
        Ok(_) => Ok(String::from_utf8(bytes).map_or(Full::Damaged, Full::Found)),
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(Full::Damaged),
        Err(error) => Err(LogError::io("read the blob", reference.as_ref())(error).into()),
    }
}
