//! broker
pub mod fetch_session;
