//! Admission of devices that connect through a gateway, such as browsers.

pub use openuvr_ipc::admission::{Admission, AdmissionGrant, AdmitRefused};

/// Receives the result of an admission. It is dropped without a call if the host has ended.
pub type AdmissionCallback = Box<dyn FnOnce(Result<AdmissionGrant, AdmitRefused>) + Send>;
