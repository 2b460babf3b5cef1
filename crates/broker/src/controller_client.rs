//! The controller as the cores see it.

use crate::messages::ControllerCall;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use wire::ErrorCode;

/// What the controller is asked through.
pub trait ControllerAccess {
    /// Carries one request to the controller and its encoded answer back.
    fn request(&self, call: ControllerCall) -> Pin<Box<dyn Future<Output = Result<Bytes, ErrorCode>>>>;
}

/// The way to the controller of this core; clones are the same way.
#[derive(Clone)]
pub struct ControllerClient(Rc<dyn ControllerAccess>);

impl ControllerClient {
    /// A way through `access`.
    pub fn new(access: impl ControllerAccess + 'static) -> ControllerClient {
        ControllerClient(Rc::new(access))
    }

    /// Carries one request there.
    ///
    /// # Errors
    /// The request is none that the controller serves.
    pub async fn request(&self, call: ControllerCall) -> Result<Bytes, ErrorCode> {
        self.0.request(call).await
    }
}
