//! The target of a MUD's pictures: a window, or the application.

use std::sync::Arc;

use openuvr_media::present::{self, Presenter, x11::WindowConfig};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::wire::video::Configuration;
use openuvr_runtime::client::OpenSurface;

use crate::app_presenter::{AppPresenter, OnFrame, Pictures};
use crate::error::{Failure, Outcome};

/// Opens a window when the size of the first picture is known. A missing display is an error at once.
pub(crate) fn window(config: &WindowConfig) -> Outcome<OpenSurface> {
    let display = match &config.display {
        Some(display) => display.clone(),
        None => std::env::var("DISPLAY").map_err(|_| {
            Failure::failed("no X display: set DISPLAY, or display in the configuration")
        })?,
    };
    openuvr_media::display::connect(&display).map_err(Failure::failed)?;
    let config = config.clone();
    Ok(Box::new(
        move |stream: Configuration, title: &str, role: Role| {
            let size = match config.size.is_valid() {
                true => config.size,
                false => stream.size,
            };
            let window = WindowConfig {
                display: Some(display.clone()),
                title: title.to_owned(),
                size,
                observer: role == Role::Observer,
                ..config.clone()
            };
            present::open("x11", &window)
        },
    ))
}

/// The application as the target, through its callback if one is set.
pub(crate) fn application(pictures: Arc<Pictures>, on_frame: Option<OnFrame>) -> OpenSurface {
    let mut presenter = Some(AppPresenter { pictures, on_frame });
    Box::new(move |_: Configuration, _: &str, _: Role| {
        let presenter = presenter.take();
        let presenter =
            presenter.ok_or_else(|| present::PresentError("opened twice".to_owned()))?;
        Ok((Box::new(presenter) as Box<dyn Presenter>, None))
    })
}
