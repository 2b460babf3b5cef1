//! Carrying new metadata to every data core.

use crate::core::Layout;
use crate::mesh::Mesh;
use crate::messages::{CoreReply, CoreRequest};
use crate::serve::Served;
use base::CoreId;
use metadata::{MetadataDelta, MetadataImage};
use quorum::Publisher;
use std::rc::Rc;
use std::sync::Arc;

/// How the controller's core hands a question to itself, where it is a data core too.
pub type Local = Rc<dyn Fn(CoreRequest) -> Served>;

/// Publishes in two rounds. First every core opens, creates and removes its partitions; only then any core shows the new
/// image to clients. So whichever core a client's next request meets, and whichever core is home to the partition it
/// names, the partition is there.
pub struct CorePublisher {
    layout: Layout,
    mesh: Rc<Mesh>,
    local: Option<Local>,
}

impl CorePublisher {
    /// For the controller's core; `local` if it is a data core.
    pub fn new(layout: Layout, mesh: Rc<Mesh>, local: Option<Local>) -> CorePublisher {
        CorePublisher { layout, mesh, local }
    }

    async fn everywhere(&self, request: impl Fn() -> CoreRequest) {
        let mut remote = Vec::new();
        for core in (0..self.layout.data_cores).map(CoreId) {
            if self.local.is_none() || core != self.layout.controller_core {
                remote.push(self.mesh.post(core, request()));
            }
        }
        if let Some(local) = &self.local
            && let Served::Later(later) = local(request())
        {
            later.await;
        }
        for one in remote {
            let CoreReply::Done = one.await else { unreachable!("publishing is answered when done") };
        }
    }
}

impl Publisher for CorePublisher {
    async fn publish(&self, _image: Arc<MetadataImage>, delta: Arc<MetadataDelta>) {
        self.everywhere(|| CoreRequest::Apply(delta.clone())).await;
        self.everywhere(|| CoreRequest::Show(delta.clone())).await;
    }
}
