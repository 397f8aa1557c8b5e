//! Error responses. Each has a status and one line of text.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tracing::warn;
use utoipa::ToSchema;

use crate::launch::LaunchError;
use crate::sessions::StartError;
use crate::store::StoreError;

/// An error response.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    why: String,
    /// Seconds after which a retry makes sense.
    wait: Option<u64>,
}

/// Body of an error response.
#[derive(Serialize, ToSchema)]
pub(crate) struct Problem {
    /// One line for the user.
    error: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, why: impl Into<String>) -> Refusal {
        Refusal {
            status,
            why: why.into(),
            wait: None,
        }
    }

    /// The response if an object does not exist or is not visible to the caller.
    pub(crate) fn nothing(what: &str) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, format!("no such {what}"))
    }

    /// The line for the user.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    pub(crate) fn wait(mut self, seconds: u64) -> Refusal {
        self.wait = Some(seconds);
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = Problem { error: self.why };
        let mut response = (self.status, Json(problem)).into_response();
        if let Some(seconds) = self.wait {
            let seconds = HeaderValue::from(seconds);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

impl From<StoreError> for Refusal {
    fn from(why: StoreError) -> Refusal {
        // The operator's log gets the details; the user gets an instruction.
        warn!("{why}");
        Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the portal's database does not respond: try again, or contact the operator",
        )
        .wait(5)
    }
}

impl From<LaunchError> for Refusal {
    fn from(why: LaunchError) -> Refusal {
        match why {
            LaunchError::Full(_) => {
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why.to_string()).wait(30)
            }
            LaunchError::Denied(_) => Refusal::new(StatusCode::FORBIDDEN, why.to_string()),
            LaunchError::BadApplication(_) => {
                Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, why.to_string())
            }
            LaunchError::Unavailable(why) => {
                warn!("the engine does not respond: {why}");
                Refusal::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the engine that starts and stops sessions does not respond: try again later. Running sessions \
                     continue",
                )
                .wait(10)
            }
        }
    }
}

impl From<StartError> for Refusal {
    fn from(why: StartError) -> Refusal {
        let status = match why {
            StartError::NoApplication | StartError::NotYours => StatusCode::NOT_FOUND,
            StartError::Over => StatusCode::GONE,
            StartError::Draining => {
                return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why.to_string()).wait(300);
            }
            StartError::TooMany(_) | StartError::Twice(_) => StatusCode::CONFLICT,
            StartError::Launch(why) => return why.into(),
            StartError::Store(why) => return why.into(),
        };
        Refusal::new(status, why.to_string())
    }
}

impl From<JsonRejection> for Refusal {
    fn from(why: JsonRejection) -> Refusal {
        Refusal::new(why.status(), why.body_text())
    }
}
