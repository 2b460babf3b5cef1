//! `odradek dump-log`

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use dump::{Decoder, Findings, IndexCheck, IndexFile, SegmentDump, SegmentOptions};
use records::{Batch, BatchHeader, field};

use super::{Exit, Outcome};

/// Show what is in segments, indexes, snapshots and checkpoints.
///
/// Takes the options of Kafka's kafka-dump-log and prints the same lines. What a file holds is told by its name: .log and
/// .checkpoint hold batches, .index, .timeindex and .txnindex are indexes, .snapshot holds producers; beyond Kafka's tool,
/// the checkpoints of a log directory, partition.metadata, meta.properties and quorum-state are shown too. Indexes are
/// compared with the segment beside them. Findings go to standard error. Nothing is changed, and a running broker
/// does not mind; of its last segment, some may be zeroes or missing still.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files to show, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "FILE,...")]
    files: Vec<PathBuf>,
    /// More files to show
    #[arg(value_name = "FILE")]
    more_files: Vec<PathBuf>,
    /// Show records, not batches only; implied by the options that show contents
    #[arg(long)]
    deep_iteration: bool,
    /// Show keys and values as text; implied by every decoder
    #[arg(long)]
    print_data_log: bool,
    /// Show contents as records of __consumer_offsets
    #[arg(long, group = "decoder")]
    offsets_decoder: bool,
    /// Show contents as records of __transaction_state
    #[arg(long, group = "decoder")]
    transaction_log_decoder: bool,
    /// Show contents as records of __cluster_metadata
    #[arg(long, group = "decoder")]
    cluster_metadata_decoder: bool,
    /// Show contents as records of __remote_log_metadata, in JSON
    #[arg(long, group = "decoder")]
    remote_log_metadata_decoder: bool,
    /// Show contents as records of __share_group_state
    #[arg(long, group = "decoder")]
    share_group_state_decoder: bool,
    /// Show of records only their contents
    #[arg(long)]
    skip_record_metadata: bool,
    /// Compare indexes with their segment without showing them
    #[arg(long)]
    verify_index_only: bool,
    /// Check indexes as a broker does at its start, without showing them
    #[arg(long)]
    index_sanity_check: bool,
    /// Stop reading a segment after this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = u64::MAX, hide_default_value = true)]
    max_bytes: u64,
    /// Accepted for the sake of scripts; batches of any size are read
    #[arg(long, value_name = "BYTES", hide = true)]
    max_message_size: Option<u64>,
}

impl Args {
    fn decoder(&self) -> Decoder {
        match self {
            Args { offsets_decoder: true, .. } => Decoder::Offsets,
            Args { transaction_log_decoder: true, .. } => Decoder::TransactionLog,
            Args { cluster_metadata_decoder: true, .. } => Decoder::ClusterMetadata,
            Args { remote_log_metadata_decoder: true, .. } => Decoder::RemoteLogMetadata,
            Args { share_group_state_decoder: true, .. } => Decoder::ShareGroupState,
            _ => Decoder::Text,
        }
    }

    fn segment_options(&self) -> SegmentOptions {
        let decoder = self.decoder();
        let contents = self.print_data_log || decoder != Decoder::Text;
        let deep = self.deep_iteration || contents;
        SegmentOptions { deep, contents, skip_record_metadata: self.skip_record_metadata, decoder }
    }

    fn index_check(&self) -> IndexCheck {
        match (self.index_sanity_check, self.verify_index_only) {
            (true, _) => IndexCheck::SanityOnly,
            (false, true) => IndexCheck::VerifyOnly,
            (false, false) => IndexCheck::Show,
        }
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    if args.files.is_empty() && args.more_files.is_empty() {
        return Err(Exit { message: "no files given; see odradek dump-log --help".to_owned(), status: 2 });
    }
    let mut findings = Findings::default();
    let mut out = BufWriter::new(std::io::stdout().lock());
    for path in args.files.iter().chain(&args.more_files) {
        match show(path, &args, &mut out, &mut findings).and_then(|()| out.flush()) {
            Ok(()) => {}
            // Somebody has seen enough, as in `odradek dump-log ... | head`.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(e) => return Err(format!("{}: {e}", path.display()).into()),
        }
    }
    eprint!("{}", findings.text());
    Ok(())
}

fn show(path: &Path, args: &Args, out: &mut impl Write, findings: &mut Findings) -> std::io::Result<()> {
    let file = path.to_string_lossy();
    let name = path.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    writeln!(out, "Dumping {file}")?;
    if let Some(heading) = dump::segment_heading(&name) {
        writeln!(out, "{heading}")?;
        return show_segment(path, &file, args, out, findings);
    }
    let mut text = String::new();
    match path.extension().and_then(|e| e.to_str()) {
        Some("index" | "timeindex") => show_index(path, &file, args, &mut text, findings)?,
        Some("txnindex") => dump::txn_index(&std::fs::read(path)?, &mut text),
        Some("snapshot") => dump::producer_snapshot(&file, &std::fs::read(path)?, &mut text),
        _ => {
            if !dump::text_file(&name, &std::fs::read(path)?, &mut text) {
                eprintln!("Ignoring unknown file {file}");
            }
        }
    }
    out.write_all(text.as_bytes())
}

fn show_segment(
    path: &Path,
    file: &str,
    args: &Args,
    out: &mut impl Write,
    findings: &mut Findings,
) -> std::io::Result<()> {
    let mut source = BufReader::with_capacity(1 << 20, File::open(path)?);
    let file_bytes = source.get_ref().metadata()?.len();
    let mut left = file_bytes.min(args.max_bytes);
    let mut segment = SegmentDump::new(file, args.segment_options());
    let mut text = String::new();
    while let Some(batch) = read_batch(&mut source, left)? {
        left -= batch.bytes.len() as u64;
        segment.batch(&batch, &mut text, findings);
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    if args.max_bytes == u64::MAX {
        segment.end(file_bytes, &mut text);
    }
    out.write_all(text.as_bytes())
}

/// The batch that comes next, if there is a whole one within `left` bytes.
fn read_batch(source: &mut impl Read, left: u64) -> std::io::Result<Option<Batch>> {
    if left < field::RECORDS as u64 {
        return Ok(None);
    }
    let mut bytes = vec![0; field::RECORDS];
    source.read_exact(&mut bytes)?;
    let Some(size) = BatchHeader::parse(&bytes).ok().map(|h| h.size()).filter(|&size| size as u64 <= left) else {
        return Ok(None);
    };
    bytes.resize(size, 0);
    source.read_exact(&mut bytes[field::RECORDS..])?;
    Ok(Batch::parse(&Bytes::from(bytes)).ok())
}

fn show_index(path: &Path, file: &str, args: &Args, text: &mut String, findings: &mut Findings) -> std::io::Result<()> {
    let bytes = std::fs::read(path)?;
    let stem = path.file_stem().and_then(|s| s.to_str()).and_then(|s| s.parse().ok());
    let base = stem.ok_or_else(|| std::io::Error::other("the name of an index is its first offset"))?;
    let mut source = File::open(path.with_extension("log"))?;
    let segment_bytes = source.metadata()?.len();
    let mut segment = |position: u64| {
        let left = segment_bytes.checked_sub(position)?;
        source.seek(SeekFrom::Start(position)).ok()?;
        read_batch(&mut source, left).ok()?
    };
    let index = IndexFile { file, bytes: &bytes, base };
    if path.extension().is_some_and(|e| e == "index") {
        dump::offset_index(&index, args.index_check(), &mut segment, text, findings);
    } else {
        let offsets = std::fs::read(path.with_extension("index")).unwrap_or_default();
        dump::time_index(&index, &offsets, args.index_check(), &mut segment, text, findings);
    }
    Ok(())
}
