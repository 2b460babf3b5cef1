//! Generates the message modules from `schemas/` into `OUT_DIR`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use wiregen::SchemaFile;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schemas = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("schemas");
    println!("cargo:rerun-if-changed={}", schemas.display());
    let mut files = read_folder(&schemas.join("api"), false)?;
    files.extend(read_folder(&schemas.join("record"), true)?);
    let errors = fs::read_to_string(schemas.join("errors.table"))?;
    let generated = wiregen::generate(&files, &errors)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("library.rs"), generated.library)?;
    fs::write(out.join("registry.rs"), generated.registry)?;
    Ok(())
}

/// The schema files of one folder in the order of their names, so that the output does not depend on the file system.
fn read_folder(folder: &Path, is_record: bool) -> io::Result<Vec<SchemaFile>> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "schema"));
    paths.sort();
    let read = |path: PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(SchemaFile { stem, is_record, text: fs::read_to_string(&path)? })
    };
    paths.into_iter().map(read).collect()
}
