//! The controller on its core: a core of its own, or data core 0.

use crate::assembly::Setup;
use crate::boot::{Boot, BootPort, StartError};
use crate::core::DataCore;
use crate::mesh::Mesh;
use crate::messages::{ControllerCall, CoreReply, CoreRequest};
use crate::publisher::{CorePublisher, Local};
use crate::serve::{self, Served};
use bytes::Bytes;
use quorum::{ControllerHandle, Quorum, QuorumConfig, QuorumError, RequestContext};
use reactor::{Class, Either, Task, spawn};
use std::rc::Rc;
use wire::ErrorCode;

/// The principal of everybody while there is no authentication.
const ANONYMOUS: &str = "User:ANONYMOUS";

/// A running controller.
pub struct ControllerHost {
    handle: ControllerHandle,
    running: Task<Result<(), QuorumError>>,
}

impl ControllerHost {
    async fn start(setup: &Setup, mesh: Rc<Mesh>, local: Option<Local>) -> Result<ControllerHost, StartError> {
        let config = QuorumConfig::new(&setup.config, &setup.cluster_id, setup.metadata_dir_id);
        let publisher = CorePublisher::new(setup.layout, mesh, local);
        let started = Quorum::start(config, publisher).await;
        let (quorum, handle) = started.map_err(|error| StartError::Controller(error.to_string()))?;
        let running = spawn(Class::Normal, async move {
            let ended = quorum.run().await;
            if ended.is_err() {
                // A broker without its controller cannot change anything any more; a restart can recover.
                reactor::stop();
            }
            ended
        });
        Ok(ControllerHost { handle, running })
    }

    /// Lets the controller finish what it began and leaves the metadata log complete.
    ///
    /// # Errors
    /// [`StartError::Controller`] when the log could not be written.
    pub async fn close(self) -> Result<(), StartError> {
        self.handle.stop().await;
        self.running.await.map_err(|error| StartError::Controller(error.to_string()))
    }
}

/// Carries one request to the controller of this core.
///
/// # Errors
/// The controller does not serve the request, or has stopped.
pub async fn request(controller: ControllerHandle, call: ControllerCall) -> Result<Bytes, ErrorCode> {
    let context = RequestContext { principal: ANONYMOUS.to_owned(), client_id: call.client_id.map(String::from) };
    let answer = controller.request(context, call.api, call.version, call.body).await;
    answer.map_err(|error| {
        tracing::debug!(api = %call.api, version = call.version, %error, "the controller gave no answer");
        match error {
            quorum::RequestFailure::Malformed(_) => ErrorCode::INVALID_REQUEST,
            quorum::RequestFailure::Stopped => ErrorCode::NOT_CONTROLLER,
        }
    })
}

/// Starts the controller on a data core.
///
/// # Errors
/// [`StartError::Controller`].
pub async fn start_shared(setup: &Setup, mesh: Rc<Mesh>, core: &Rc<DataCore>) -> Result<ControllerHost, StartError> {
    let local: Local = {
        let core = core.clone();
        Rc::new(move |request: CoreRequest| serve::begin(&core, core.id, request))
    };
    let host = ControllerHost::start(setup, mesh, Some(local)).await?;
    core.set_controller(host.handle.clone());
    Ok(host)
}

/// Runs the controller on a core of its own until the broker ends.
///
/// # Errors
/// [`StartError::Controller`].
pub async fn run_dedicated(setup: &Setup, mesh: Rc<Mesh>, boot: &BootPort) -> Result<(), StartError> {
    let starting = ControllerHost::start(setup, mesh.clone(), None);
    let host = match reactor::race(starting, boot.aborted()).await {
        Either::Left(started) => started?,
        Either::Right(()) => return Err(StartError::Elsewhere),
    };
    let handle = host.handle.clone();
    let serving = mesh.serve(move |_, asked| match asked {
        CoreRequest::Controller(call) => {
            let handle = handle.clone();
            Served::Later(Box::pin(async move { CoreReply::Controller(request(handle, *call).await) }))
        }
        // Only partitions and sessions are asked for otherwise, and this core is home to none.
        _ => Served::Done(CoreReply::Controller(Err(ErrorCode::INVALID_REQUEST))),
    });
    let serving = spawn(Class::Latency, serving);
    // When another core has ended early the controller cannot finish: that core takes in no metadata any more. The next start
    // finds what a crash leaves.
    boot.one(|message| matches!(message, Boot::CloseController)).await?;
    let closed = host.close().await;
    serving.abort();
    boot.tell_first(Boot::ControllerClosed(closed.map_err(|error| error.to_string()))).await;
    boot.one(|message| matches!(message, Boot::Exit)).await?;
    Ok(())
}
