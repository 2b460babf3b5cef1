//! File operations with the errors of this crate.

use std::io;
use std::path::Path;

use reactor::fs::{self, File, OpenOptions};

use crate::LogError;

/// Error numbers that mean "no room", as opposed to a broken disk.
const NO_ROOM: [i32; 2] = [28, 122];

/// A failed operation on a path.
pub(crate) fn failed(operation: &'static str, path: &Path, error: &io::Error) -> LogError {
    let file = path.display().to_string();
    if is_no_room(error) {
        return LogError::NoSpace { log: file };
    }
    LogError::Io { operation, file, error: error.to_string() }
}

/// The file system (or the quota) is full.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    fs::os_error(error).is_some_and(|code| NO_ROOM.contains(&code)) || error.kind() == io::ErrorKind::StorageFull
}

/// Adds path and operation to the error of a system call.
pub(crate) trait Context<T> {
    fn context(self, operation: &'static str, path: &Path) -> Result<T, LogError>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, operation: &'static str, path: &Path) -> Result<T, LogError> {
        self.map_err(|error| failed(operation, path, &error))
    }
}

/// Options for a segment or journal file that is written directly.
pub(crate) const DIRECT: OpenOptions =
    OpenOptions { read: true, write: true, create: false, create_new: false, truncate: false, direct: true };

/// Reads a side file; `None` when it is not there.
pub(crate) async fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, LogError> {
    match fs::read(path).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path, &error)),
    }
}

/// Reads a side file as text; `None` when it is not there. Bytes that are no text are replaced and will not parse.
pub(crate) async fn read_text(path: &Path) -> Result<Option<String>, LogError> {
    Ok(read_if_there(path).await?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Replaces the contents of a side file and syncs it; its name is durable when the directory is synced.
pub(crate) async fn write_file(path: &Path, bytes: Vec<u8>) -> Result<(), LogError> {
    let options = OpenOptions { write: true, create: true, truncate: true, ..OpenOptions::default() };
    let file = File::open(path, options).await.context("create", path)?;
    file.write_all_at(bytes, 0).await.0.context("write", path)?;
    file.sync_data().await.context("sync", path)
}

/// Removes a file that may be absent.
pub(crate) async fn remove_if_there(path: &Path) -> Result<(), LogError> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, &error)),
        _ => Ok(()),
    }
}
