//! Which broker coordinates a group, and what all runs with groups begin and end with.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::channel;

use reactor::{Class, Handover, Runtime, RuntimeConfig, spawn};
use serde_json::Value;
use wire::find_coordinator_request::FindCoordinatorRequest;
use wire::find_coordinator_response::FindCoordinatorResponse;
use wire::{ApiKey, ErrorCode};

use crate::cluster::{Admin, LEADER_STEPS_MAX, check, pause};
use crate::conn::{answer, resolve};
use crate::plan::Plan;

/// Groups that are asked for at once.
const GROUPS_PER_REQUEST_MAX: usize = 1000;
/// FindCoordinator: the type of groups' keys.
const KEY_TYPE_GROUP: i8 = 0;

/// What a run with groups has found.
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) json: Value,
    /// Why it does not count as a success, if it does not.
    pub(crate) failure: Option<String>,
}

/// True for errors that go by themselves: a coordinator that is being made, loaded or moved.
pub(crate) fn is_passing(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    )
}

/// The name of group number `index`.
pub(crate) fn group_name(prefix: &str, index: usize) -> String {
    format!("{prefix}-{index}")
}

/// The addresses of the groups' coordinators. Waits while the topic of the offsets is made.
pub(crate) async fn coordinators(admin: &mut Admin, groups: &[String]) -> Result<Vec<SocketAddr>, String> {
    let key = ApiKey::FindCoordinator;
    let version = admin.versions().pick(key, 6)?;
    if version < 4 {
        return Err(format!("FindCoordinator version {version} asks for one group alone; 4 is needed"));
    }
    let mut found = BTreeMap::<String, SocketAddr>::new();
    for step in 0..LEADER_STEPS_MAX {
        let missing: Vec<&String> = groups.iter().filter(|group| !found.contains_key(*group)).collect();
        if missing.is_empty() {
            return Ok(groups.iter().map(|group| found[group]).collect());
        }
        if step > 0 {
            pause(step).await;
        }
        for some in missing.chunks(GROUPS_PER_REQUEST_MAX) {
            let request = FindCoordinatorRequest {
                key_type: KEY_TYPE_GROUP,
                coordinator_keys: some.iter().map(|group| group.as_str().into()).collect(),
                ..FindCoordinatorRequest::default()
            };
            let (frame, id) = admin.ask(key, version, &request).await?;
            let said: FindCoordinatorResponse<'_> = answer(&frame, key, version, id)?;
            for told in &said.coordinators {
                if is_passing(ErrorCode(told.error_code)) {
                    continue;
                }
                check(told.error_code, || format!("coordinator of group {}", told.key))?;
                let port = u16::try_from(told.port).map_err(|_| format!("a coordinator has port {}", told.port))?;
                found.insert(told.key.to_string(), resolve(&told.host, port)?);
            }
        }
    }
    Err("some groups have no coordinator".to_owned())
}

/// Runs `work` on a core of its own. One core is enough: what brokers spend on a request of a group is a multiple of what it
/// takes to ask.
pub(crate) fn on_a_core<F>(work: impl FnOnce() -> F + Send + 'static) -> Result<Told, String>
where
    F: Future<Output = Result<Told, String>> + 'static,
{
    let mut config = RuntimeConfig::with_cores(1);
    config.cores.iter_mut().for_each(|core| "perf-0".clone_into(&mut core.name));
    let (done, heard) = channel();
    let given = Handover::new(vec![work]);
    let runtime = Runtime::start(config, move |core| {
        let (given, done) = (given.clone(), done.clone());
        async move {
            let found = spawn(Class::Normal, given.take(core)()).await;
            // The main thread waits for it.
            let _ = done.send(found);
        }
    })
    .map_err(|error| format!("no io_uring: {error}"))?;
    // The process has one runtime, so nobody else has the signals; without them an interruption just loses the result.
    let _ = runtime.stop_handle().on_termination_signals();
    let found = heard.recv().map_err(|_| "interrupted".to_owned());
    runtime.join();
    found?
}

/// The settings that every result has.
pub(crate) fn settings(plan: &Plan) -> Value {
    serde_json::json!({
        "topics": plan.topics.len(), "partitions": plan.partitions, "threads": 1,
        "duration_s": plan.duration.map(|d| d.as_secs_f64()), "warmup_s": plan.warmup.as_secs_f64(),
    })
}
