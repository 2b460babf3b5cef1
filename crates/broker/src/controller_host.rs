//! The controller on its core: a core of its own, or data core 0.

use crate::assembly::Setup;
use crate::boot::{Boot, BootPort, StartError};
use crate::controller_client::ControllerClient;
use crate::core::DataCore;
use crate::mesh::Mesh;
use crate::messages::{CoreReply, CoreRequest};
use crate::publisher::CorePublisher;
use crate::serve::{self, Served};
use crate::stand_in::StandIn;
use log::DirStart;
use reactor::{Class, spawn};
use std::rc::Rc;
use std::sync::Arc;
use wire::ErrorCode;

/// A running controller.
pub struct ControllerHost {}

impl ControllerHost {
    /// Leaves the metadata log complete.
    pub async fn close(self) {}
}

/// Starts the controller on a data core.
///
/// # Errors
/// [`StartError::Controller`].
pub async fn start_shared(
    setup: &Arc<Setup>,
    mesh: Rc<Mesh>,
    _starts: &[DirStart],
    core: &Rc<DataCore>,
) -> Result<ControllerHost, StartError> {
    let local = {
        let core = core.clone();
        Rc::new(move |request: CoreRequest| serve::begin(&core, core.id, request))
    };
    let publisher = CorePublisher::new(setup.layout, mesh, Some(local));
    core.set_controller(ControllerClient::new(StandIn::new(setup.clone(), publisher)));
    Ok(ControllerHost {})
}

/// Runs the controller on a core of its own until the broker ends.
///
/// # Errors
/// [`StartError::Controller`].
pub async fn run_dedicated(
    setup: &Arc<Setup>,
    mesh: Rc<Mesh>,
    _starts: &[DirStart],
    boot: &BootPort,
) -> Result<(), StartError> {
    let publisher = CorePublisher::new(setup.layout, mesh.clone(), None);
    let client = ControllerClient::new(StandIn::new(setup.clone(), publisher));
    let serving = mesh.serve(move |_, request| match request {
        CoreRequest::Controller(call) => {
            let client = client.clone();
            Served::Later(Box::pin(async move { CoreReply::Controller(client.request(*call).await) }))
        }
        // Only partitions and sessions are asked for otherwise, and this core is home to none.
        _ => Served::Done(CoreReply::Controller(Err(ErrorCode::INVALID_REQUEST))),
    });
    let serving = spawn(Class::Latency, serving);
    boot.one(|message| matches!(message, Boot::Exit)).await?;
    serving.abort();
    Ok(())
}
