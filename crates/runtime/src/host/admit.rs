//! Admission of devices that connect through a gateway, such as browsers.

pub use openuvr_ipc::admission::{Admission, AdmissionGrant, AdmitRefused};

/// Receives the result of an admission. If the host has ended or its command queue is full, the callback is dropped
/// without being called.
pub type AdmissionCallback = Box<dyn FnOnce(Result<AdmissionGrant, AdmitRefused>) + Send>;
