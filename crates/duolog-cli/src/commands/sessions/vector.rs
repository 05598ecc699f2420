//! Reads vectors from arguments and files.

use std::fs::File;
use std::io::{Read as _, stdin};
use std::path::Path;

use duolog::limits;

use crate::failure::Failure;

/// Maximum size of a vector as text: 32 bytes are enough for any number.
const TEXT_BYTES_MAX: u64 = limits::EMBEDDING_BYTES_MAX as u64 / 4 * 32;

/// Parses a JSON array of numbers. Each number is rounded to the nearest `f32`.
pub(super) fn parse(what: &str, text: &str) -> Result<Vec<f32>, Failure> {
    let numbers: Result<Vec<&serde_json::value::RawValue>, _> = serde_json::from_str(text);
    let numbers = numbers.ok().and_then(|numbers| {
        let parsed: Result<Vec<f32>, _> = numbers.iter().map(|number| number.get().parse()).collect();
        parsed.ok()
    });
    numbers.ok_or_else(|| Failure::Given {
        message: format!("cannot read {what}: it is not a JSON array of numbers"),
        hint: Some("example: [0.1, -2, 3e-4]".to_owned()),
    })
}

/// Reads a vector from a file, or from stdin for `-`: a JSON array of numbers, or packed little-endian 32-bit floats.
pub(super) fn read(path: &Path, raw: bool) -> Result<Vec<f32>, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        stdin().lock().take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    read.map_err(Failure::file("read", path))?;
    if !raw {
        let text = String::from_utf8_lossy(&bytes);
        return parse(&path.display().to_string(), &text);
    }
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Failure::Given {
            message: format!(
                "cannot read {}: its size of {} bytes is not a multiple of 4",
                path.display(),
                bytes.len()
            ),
            hint: Some("remove --raw to read a JSON array".to_owned()),
        });
    }
    Ok(numbers.iter().map(|four| f32::from_le_bytes(*four)).collect())
}
