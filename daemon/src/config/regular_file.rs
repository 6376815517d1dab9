//! Reads the files that settings name. Another user may have put something else in their place.

use std::fs::{Metadata, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The text of a regular file, and its metadata.
///
/// # Errors
/// Why it can't be read, without quotes from it. A file above `bytes_max` is refused.
pub fn read_regular_file(path: &Path, bytes_max: u64) -> Result<(String, Metadata), String> {
    // Opening a FIFO would wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("it is larger than {bytes_max} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok((text, metadata))
}
