//! The options that only this broker has, prefix `odradek.`.

use crate::values::Values;

/// `odradek.durability`: what an acknowledgement promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// acks=all waits until the data has reached the device: it survives power loss.
    Durable,
    /// It waits until the write has completed: it survives the death of the process.
    Written,
}

impl Durability {
    /// As the option spells it.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Durable => "durable",
            Durability::Written => "written",
        }
    }
}

/// `odradek.controller.core`: where the controller runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerCore {
    /// Dedicated where there are CPUs enough.
    Auto,
    /// On data core 0.
    Shared,
    /// On a core of its own.
    Dedicated,
}

/// CPUs from which on the controller gets one of its own: with fewer, it would take more than a quarter of the machine.
const DEDICATED_CONTROLLER_CPUS_MIN: usize = 4;

/// What a core has of request memory, and of recent data, where nobody says otherwise, in bytes. Machines with more cores have
/// more memory, and a core needs as much of it, however many others there are.
const MEMORY_PER_CORE: u64 = 32 << 20;

/// The least of recent data that a core has for each log directory, in bytes: some pieces of what is written at a time.
const TAIL_PER_DIR_MIN: u64 = 8 << 20;

/// Bytes that may wait to be written to segments, all cores together and behind the journal, where nobody says otherwise: more cores do
/// not make the disk faster.
const UNWRITTEN: u64 = 32 << 20;

/// The least of them that a core has for each log directory: some of the largest writes.
const UNWRITTEN_PER_DIR_MIN: u64 = 4 << 20;

/// The `odradek.*` options.
#[derive(Clone, PartialEq, Debug)]
pub struct OwnConfig {
    /// `odradek.durability`.
    pub durability: Durability,
    /// `odradek.cores`; 0 means one per CPU. See [`OwnConfig::layout`].
    pub cores: u16,
    /// `odradek.controller.core`.
    pub controller_core: ControllerCore,
    /// `odradek.core.pinning`.
    pub core_pinning: bool,
    /// `odradek.request.memory.bytes`: all cores together; 0 goes by their number. See [`OwnConfig::request_share`].
    pub request_memory_bytes: u64,
    /// `odradek.tail.cache.bytes`: all cores together; 0 goes by their number. See [`OwnConfig::tail_share`].
    pub tail_cache_bytes: u64,
    /// `odradek.journal.file.bytes`.
    pub journal_file_bytes: u64,
    /// `odradek.journal.files`: per core and log directory.
    pub journal_files: u32,
    /// `odradek.ring.entries`.
    pub ring_entries: u32,
    /// `odradek.log.level`.
    pub log_level: String,
    /// `odradek.metrics.listener`.
    pub metrics_listener: Option<String>,
}

impl OwnConfig {
    pub(crate) fn from_values(values: &Values) -> OwnConfig {
        OwnConfig {
            durability: match values.text("odradek.durability") {
                "written" => Durability::Written,
                _ => Durability::Durable,
            },
            cores: u16::try_from(values.count("odradek.cores")).unwrap_or(u16::MAX),
            controller_core: match values.text("odradek.controller.core") {
                "shared" => ControllerCore::Shared,
                "dedicated" => ControllerCore::Dedicated,
                _ => ControllerCore::Auto,
            },
            core_pinning: values.boolean("odradek.core.pinning"),
            request_memory_bytes: values.limit("odradek.request.memory.bytes").unwrap_or(0),
            tail_cache_bytes: values.limit("odradek.tail.cache.bytes").unwrap_or(0),
            journal_file_bytes: u64::from(values.count("odradek.journal.file.bytes")),
            journal_files: values.count("odradek.journal.files"),
            ring_entries: values.count("odradek.ring.entries"),
            log_level: values.text("odradek.log.level").to_owned(),
            metrics_listener: values.text_or_none("odradek.metrics.listener").map(str::to_owned),
        }
    }

    /// Bytes that the requests of one of `cores` data cores may hold.
    pub fn request_share(&self, cores: u16) -> u64 {
        match self.request_memory_bytes {
            0 => MEMORY_PER_CORE,
            all => all / u64::from(cores),
        }
    }

    /// Bytes of recent data that one of `cores` data cores keeps for each of `dirs` log directories.
    pub fn tail_share(&self, cores: u16, dirs: usize) -> u64 {
        match self.tail_cache_bytes {
            0 => (MEMORY_PER_CORE / dirs as u64).max(TAIL_PER_DIR_MIN),
            all => all / u64::from(cores) / dirs as u64,
        }
    }

    /// Bytes of them that may not be in a segment yet.
    pub fn unwritten_share(&self, cores: u16, dirs: usize) -> u64 {
        let half = self.tail_share(cores, dirs) / 2;
        match self.tail_cache_bytes {
            0 => (UNWRITTEN / u64::from(cores) / dirs as u64).max(UNWRITTEN_PER_DIR_MIN).min(half),
            _ => half,
        }
    }

    /// Number of data cores and whether the controller has a core besides them, on a machine with `cpus` usable CPUs.
    pub fn layout(&self, cpus: usize) -> (u16, bool) {
        let dedicated = match self.controller_core {
            ControllerCore::Shared => false,
            ControllerCore::Dedicated => true,
            ControllerCore::Auto => self.cores == 0 && cpus >= DEDICATED_CONTROLLER_CPUS_MIN,
        };
        let data = match self.cores {
            0 => u16::try_from(cpus.saturating_sub(usize::from(dedicated)).max(1)).unwrap_or(u16::MAX),
            cores => cores,
        };
        (data, dedicated)
    }
}
