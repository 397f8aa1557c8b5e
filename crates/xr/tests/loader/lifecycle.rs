//! Lifecycle of a session, with calls in the specified order.

use openxr_sys as xr;
use openxr_sys::SessionState as State;

use crate::rig::{Application, alone};

const HEADLESS: &[&[u8]] = &[xr::MND_HEADLESS_EXTENSION_NAME];

#[test]
fn a_headless_session_follows_the_specification() {
    alone(
        "lifecycle::a_headless_session_follows_the_specification",
        || {
            let Some(app) = Application::open(HEADLESS) else {
                return;
            };
            let session = app.session(std::ptr::null()).unwrap();
            assert_eq!(app.states(), [State::IDLE, State::READY]);
            assert_eq!(app.begin(session), xr::Result::SUCCESS);
            let running = [State::SYNCHRONIZED, State::VISIBLE, State::FOCUSED];
            assert_eq!(app.states(), running);
            let displays: Vec<_> = (0..5).map(|_| app.frame(session)).collect();
            assert!(displays.iter().all(|(_, drawn)| !drawn), "headless");
            let rising = |pair: &[(xr::Time, bool)]| pair[0].0.as_nanos() < pair[1].0.as_nanos();
            assert!(displays.windows(2).all(rising));
            let ready = xr::Result::ERROR_SESSION_NOT_STOPPING;
            assert_eq!(call!(app, EndSession(session)), ready);
            done!(app, RequestExitSession(session));
            let leaving = [State::VISIBLE, State::SYNCHRONIZED, State::STOPPING];
            assert_eq!(app.states(), leaving);
            done!(app, EndSession(session));
            assert_eq!(app.states(), [State::IDLE, State::EXITING]);
            done!(app, DestroySession(session));
            // A second session is possible after the first.
            let session = app.session(std::ptr::null()).unwrap();
            assert_eq!(app.states(), [State::IDLE, State::READY]);
            done!(app, DestroySession(session));
            done!(app, DestroyInstance(app.instance));
        },
    );
}

#[test]
fn reference_spaces_are_located() {
    alone("lifecycle::reference_spaces_are_located", || {
        let Some(app) = Application::open(HEADLESS) else {
            return;
        };
        let session = app.session(std::ptr::null()).unwrap();
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        let (display, _) = app.frame(session);
        let local = app.space(session, xr::ReferenceSpaceType::LOCAL);
        let stage = app.space(session, xr::ReferenceSpaceType::STAGE);
        let view = app.space(session, xr::ReferenceSpaceType::VIEW);
        let locate = |space, base| {
            // SAFETY: zero is valid for all fields.
            let mut location: xr::SpaceLocation = unsafe { std::mem::zeroed() };
            location.ty = xr::SpaceLocation::TYPE;
            done!(app, LocateSpace(space, base, display, &mut location));
            location
        };
        let valid = xr::SpaceLocationFlags::POSITION_VALID;
        let tracked = xr::SpaceLocationFlags::POSITION_TRACKED;
        let floor = locate(stage, local);
        assert!(floor.pose.position.y < -1.0 && floor.location_flags.contains(valid | tracked));
        // Without a client, the head's pose is valid but not tracked.
        let head = locate(view, local);
        assert!(head.location_flags.contains(valid));
        assert!(!head.location_flags.intersects(tracked));
        done!(app, DestroySpace(view));
        let gone = {
            // SAFETY: zero is valid for all fields.
            let mut location: xr::SpaceLocation = unsafe { std::mem::zeroed() };
            location.ty = xr::SpaceLocation::TYPE;
            call!(app, LocateSpace(view, local, display, &mut location))
        };
        assert_eq!(gone, xr::Result::ERROR_HANDLE_INVALID);
    });
}

#[test]
fn the_two_call_idiom_returns_all_elements() {
    alone("lifecycle::the_two_call_idiom_returns_all_elements", || {
        let Some(app) = Application::open(HEADLESS) else {
            return;
        };
        let (system, stereo) = (app.system(), xr::ViewConfigurationType::PRIMARY_STEREO);
        let mut count = 0;
        let none = std::ptr::null_mut();
        done!(
            app,
            EnumerateViewConfigurationViews(app.instance, system, stereo, 0, &mut count, none)
        );
        assert_eq!(count, 2);
        // SAFETY: zero is valid for all fields.
        let mut views: [xr::ViewConfigurationView; 2] = unsafe { std::mem::zeroed() };
        let mut query = |capacity, views: &mut [xr::ViewConfigurationView; 2]| {
            let out = views.as_mut_ptr();
            let count = &mut count;
            call!(
                app,
                EnumerateViewConfigurationViews(app.instance, system, stereo, capacity, count, out)
            )
        };
        let wrong = xr::Result::ERROR_VALIDATION_FAILURE;
        assert_eq!(query(2, &mut views), wrong, "the structure type is not set");
        views
            .iter_mut()
            .for_each(|view| view.ty = xr::ViewConfigurationView::TYPE);
        assert_eq!(query(1, &mut views), xr::Result::ERROR_SIZE_INSUFFICIENT);
        assert_eq!(query(2, &mut views), xr::Result::SUCCESS);
        assert!(
            views
                .iter()
                .all(|view| view.recommended_image_rect_width == 640)
        );
    });
}
